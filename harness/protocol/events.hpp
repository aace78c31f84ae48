// The lines that a rank appends to its own stream, one JSON object each, flushed per line: all that survives of a rank that dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace shardproof {

/// A rank's own view of how a case ended for it. `hung`, `crashed` and `missing` are never said by a rank itself: a merge concludes them.
enum class Outcome : std::uint8_t { passed, failed, error, released, skipped, hung, crashed, missing };

std::string_view to_string(Outcome outcome);
std::optional<Outcome> outcome_from_string(std::string_view text);

namespace event {

/// A failed comparison of large values must not make a stream unreadable: longer texts are cut, with a note of how many bytes are left out.
inline constexpr std::size_t text_limit = 16 * 1024;
inline constexpr std::size_t messages_limit = 64;
/// No writer makes a longer line, so a reader need not hold one: every text at its limit, each byte escaped as `\u0000`.
inline constexpr std::size_t line_limit = 8 * 1024 * 1024;

struct RankStarted {
  int rank = 0;
  int world_size = 0;
  std::int64_t pid = 0;
  std::string host;
  std::string nonce;
  std::string suite_version;
  std::string build;
  int protocol = 0;
};

/// `position` is the place in the plan, from 0: it tells repetitions of one case apart.
struct CaseStarted {
  std::string id;
  std::uint64_t position = 0;
  std::int64_t monotonic_ns = 0;
};

struct AssertionFailed {
  std::string file;
  int line = 0;
  std::string macro;  ///< CHECK, REQUIRE, …, or a check of the harness (failure_text.hpp); empty for an unexpected exception
  std::string expression;  ///< as written
  std::string expansion;  ///< with values
  std::vector<std::string> messages;  ///< INFO and CAPTURE, oldest first
  std::vector<std::string> clauses;  ///< that the failure breaks: of the scope that it is in, else of the case
  std::int64_t monotonic_ns = 0;  ///< CLOCK_MONOTONIC: earliest over the ranks of a machine is the first cause
};

/// A value that is not finite travels as null and reads back as NaN.
struct Measured {
  std::string name;
  double value = 0;
  std::string unit;
};

struct CaseEnded {
  std::string id;
  std::uint64_t position = 0;
  Outcome outcome = Outcome::passed;
  std::uint64_t assertions = 0;
  std::string reason;  ///< of a skip, an error or a release
  int culprit = -1;  ///< the rank that skipped, failed or died and so released this one; -1 for none
  std::int64_t duration_ns = 0;
  bool unclaimed = false;  ///< of a skip: the subject does not claim what the case needs
  std::vector<std::string> combined;  ///< features and ingredients that the case played together, where it says so
};

/// The rank left its world in order.
struct RankEnded {
  int rank = 0;
  std::string cut_short;  ///< why all ranks left together, wherever they were in their plan; empty: they had come to its end
};

}  // namespace event

using RankEvent =
    std::variant<event::RankStarted, event::CaseStarted, event::AssertionFailed, event::Measured, event::CaseEnded, event::RankEnded>;

/// One line without its newline.
std::string to_line(const RankEvent& event);

/// Throws std::invalid_argument saying what is wrong with the line (not JSON, no known `event`, a field missing or of another type).
RankEvent parse_line(std::string_view line);

}  // namespace shardproof
