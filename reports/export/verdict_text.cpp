#include "reports/export/verdict_text.hpp"

#include <fmt/format.h>

#include <string_view>

#include "harness/base/enum_names.hpp"

namespace shardproof::reports {

namespace {

std::string_view verdict_word(Verdict verdict) {
  return base::name_of<Verdict::crashed>(verdict,
                                         {"PASS", "SKIP", "NOT RUN", "ERROR", "FAIL", "DISAGREE", "HANG", "CRASH"});
}

}  // namespace

Hue hue_of(Verdict verdict) {
  return is_bad(verdict) ? Hue::red : verdict == Verdict::skipped ? Hue::yellow : Hue::green;
}

Hue hue_of(const CaseResult& result) { return result.waiver >= 0 ? Hue::yellow : hue_of(result.verdict); }

std::string headline(const CaseResult& result) {
  const std::string_view word = verdict_word(result.verdict);
  return result.waiver >= 0 ? fmt::format("WAIVED {}", word) : std::string(word);
}

std::string skip_text(const CaseResult& result) {
  const std::string reason = skip_reason(result);
  return fmt::format("{}{}", reason.empty() ? "no reason given" : reason,
                     result.skipped_by >= 0 ? fmt::format(" (asked by rank {})", result.skipped_by) : "");
}

std::string waiver_text(const Waiver& waiver) {
  return fmt::format("waived by {} until {}: {} ({})", waiver.owner, waiver.expires, waiver.reason, waiver.link);
}

std::string repetition_text(const CaseResult& result) {
  if (result.attempt > 0 || result.superseded) return fmt::format(" (attempt {})", result.attempt + 1);
  return result.repetition == 0 ? std::string() : fmt::format(" (repetition {})", result.repetition);
}

}  // namespace shardproof::reports
