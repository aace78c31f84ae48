// The fuzz targets: every reader of bytes from outside the process. A target returns for any input, or aborts if a
// property fails. Below, "stable" means that a value that was read is written so that it reads the same.
#pragma once

#include <array>
#include <string_view>

namespace shardproof::fuzz {

/// A parsed line is stable.
void parse_line(std::string_view input);
/// Never throws, and a merge of the events never throws either.
void rank_stream(std::string_view input);
/// Throws std::invalid_argument only. A report that was read has one written form, a text, a stable part and an exit
/// code.
void report(std::string_view input);
/// Reads two reports, separated by a NUL. A difference has text and JSON, and no report differs from itself.
void diff(std::string_view input);
/// Reads a filter, an id and a tag, one per line. A text that is not a glob matches itself, and matching always ends.
void case_filter(std::string_view input);

/// Throws std::invalid_argument only. A scenario is stable.
void scenario(std::string_view input);

/// Throws std::invalid_argument only. Waivers are stable, and turn no verdict into a pass.
void waivers(std::string_view input);

/// Throws std::invalid_argument only. A flight record is stable, and has an explanation.
void flight(std::string_view input);

/// Throws std::runtime_error only. A value from a store's file has one written form.
void store_file(std::string_view input);

/// Throws std::invalid_argument only. A list of GPUs is stable, and GPUs can be chosen from it.
void gpu_listing(std::string_view input);

/// Throws RecordError only. In a record of NCCL calls, every call was begun, and has a text.
void nccl_record(std::string_view input);

/// Writes alternating calls of two ranks, given as bytes, to records. The calls read from them equal the written calls,
/// and can be compared.
void nccl_calls(std::string_view input);

/// Throws std::invalid_argument only. Each fault applies to a call that it names.
void nccl_faults(std::string_view input);

/// Throws std::invalid_argument only. A compiled plan is stable, and has a text and a drawing.
void compiled_plan(std::string_view input);

/// Reads frames of the connection between hosts. Throws BadMessage only. Every message has one written form.
void link_message(std::string_view input);

/// Reads JSON of a guard or of its launcher. Throws std::invalid_argument or nlohmann's exceptions only. A message is
/// stable.
void guard_message(std::string_view input);
/// Throws std::invalid_argument only. Addresses of a hub are stable.
void hub_addresses(std::string_view input);

struct Target {
  std::string_view name;
  void (*run)(std::string_view input);
};

inline constexpr std::array<Target, 17> targets{{{"parse_line", parse_line},
                                                 {"rank_stream", rank_stream},
                                                 {"report", report},
                                                 {"diff", diff},
                                                 {"case_filter", case_filter},
                                                 {"scenario", scenario},
                                                 {"waivers", waivers},
                                                 {"flight", flight},
                                                 {"store_file", store_file},
                                                 {"gpu_listing", gpu_listing},
                                                 {"nccl_record", nccl_record},
                                                 {"nccl_calls", nccl_calls},
                                                 {"nccl_faults", nccl_faults},
                                                 {"compiled_plan", compiled_plan},
                                                 {"link_message", link_message},
                                                 {"guard_message", guard_message},
                                                 {"hub_addresses", hub_addresses}}};

}  // namespace shardproof::fuzz
