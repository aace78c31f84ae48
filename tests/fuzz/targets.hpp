// What is fuzzed: every reader of bytes that somebody else wrote. A target returns for any input, or breaks a property and aborts.
#pragma once

#include <array>
#include <string_view>

namespace shardproof::fuzz {

/// A line that parses is written so that it parses to the same.
void parse_line(std::string_view input);
/// Never throws, and neither does a merge of what was read.
void rank_stream(std::string_view input);
/// Throws std::invalid_argument only; a report that is read has one written form, a text, a stable part and an exit code.
void report(std::string_view input);
/// Two reports, apart by a NUL: a difference has text and JSON, and nothing differs from itself.
void diff(std::string_view input);
/// A filter, an id and a tag, by line: what is no glob matches itself, and matching always ends.
void case_filter(std::string_view input);

/// Throws std::invalid_argument only; a scenario that is read is written so that it reads the same.
void scenario(std::string_view input);

/// Throws std::invalid_argument only; waivers that are read are written so that they read the same, and make no verdict a pass.
void waivers(std::string_view input);

/// Throws std::invalid_argument only; a flight record that is read is written so that it reads the same, and can be explained.
void flight(std::string_view input);

/// Throws std::runtime_error only; a value that is read out of a store's file has one written form.
void store_file(std::string_view input);

/// Throws std::invalid_argument only; a list of GPUs that is read is written so that it reads the same, and can be chosen from.
void gpu_listing(std::string_view input);

/// Throws RecordError only; of a record of NCCL calls that is read, every call was begun, and it can be told.
void nccl_record(std::string_view input);

/// Calls of two ranks by turns, as their bytes, go through records: what is read of them is as it was written, and they can be compared.
void nccl_calls(std::string_view input);

/// Throws std::invalid_argument only; of faults that are read, each applies to a call that it names.
void nccl_faults(std::string_view input);

/// Throws std::invalid_argument only; a compiled plan that is read is written so that it reads the same, and has a text and a drawing.
void compiled_plan(std::string_view input);

struct Target {
  std::string_view name;
  void (*run)(std::string_view input);
};

inline constexpr std::array<Target, 14> targets{{{"parse_line", parse_line},
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
                                                 {"compiled_plan", compiled_plan}}};

}  // namespace shardproof::fuzz
