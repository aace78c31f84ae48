#include "reports/export/markdown.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "harness/base/utf8.hpp"
#include "reports/export/exported_cases.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/foreign_text.hpp"
#include "reports/export/summary.hpp"
#include "reports/export/verdict_text.hpp"

namespace shardproof::reports {

namespace {

constexpr std::size_t id_limit = 200, reason_limit = 300;

/// Foreign text as code in HTML. References keep each character that Markdown, tables or links would use.
std::string html_code(std::string_view line) {
  constexpr std::string_view plain = " -/=,";
  std::string code = "<code>";
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          plain.find(c) != std::string_view::npos;
    if (is_plain) code += c;
    else code += fmt::format("&#{};", static_cast<int>(byte));
  }
  return code + "</code>";
}

/// Foreign text as code of at most `most` visible bytes, also in a table. A code span is readable in a log, too.
std::string code(std::string_view text, std::size_t most) {
  const std::string line = one_line(text, most);
  const bool is_simple = !line.empty() && line.find_first_of("`|\\") == std::string::npos &&
                         line.find_first_not_of(' ') == 0 && line.back() != ' ';
  return is_simple ? fmt::format("`{}`", line) : html_code(line);
}

std::string plural(std::size_t count, std::string_view one, std::string_view several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

/// Entries of a list up to a number and a size. Keeps room to say how many are left out.
class Entries {
 public:
  Entries(std::size_t count, std::size_t size) : count_(count), size_(size - reserve) {}

  bool has_room_for(std::string_view entry) const { return taken_ < count_ && text_.size() + entry.size() <= size_; }
  bool add(std::string_view entry) {
    if (!has_room_for(entry)) return false;
    text_ += entry;
    ++taken_;
    return true;
  }
  std::size_t taken() const { return taken_; }
  const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t reserve = 200;
  std::size_t count_, size_, taken_ = 0;
  std::string text_;
};

/// The number of cases of groups.
std::size_t cases_of(std::span<const CauseGroup> groups) {
  std::size_t cases = groups.size();
  for (const CauseGroup& group : groups) cases += group.others.size();
  return cases;
}

std::string left_out_text(std::span<const CauseGroup> groups, std::string_view where) {
  if (groups.empty()) return {};
  const bool is_one = groups.size() == 1;
  return fmt::format("\n{} more {}, with {}, {} left out{}.\n", groups.size(), is_one ? "cause" : "causes",
                     plural(cases_of(groups), "case", "cases"), is_one ? "is" : "are", where);
}

std::string causes_table(std::span<const CauseGroup> groups, const Report& report, std::size_t size) {
  constexpr std::size_t shown = 100;
  Entries rows(1 + shown, size);
  rows.add("| verdict | first case | cases | cause |\n|---|---|--:|---|\n");
  const std::size_t head = rows.taken();
  for (const CauseGroup& group : groups) {
    const CaseResult& first = *group.shown;
    if (!rows.add(fmt::format("| {} | {} | {} | {} |\n", headline(first), code(first.info.id, id_limit),
                              group.others.size() + 1, code(cause_line(first, report), reason_limit))))
      break;
  }
  return rows.text() + left_out_text(groups.subspan(rows.taken() - head), " of this table");
}

std::string details_text(const CauseGroup& group, const Report& report, const TextStyle& style) {
  constexpr std::size_t longest = 30'000;
  const std::string whole = visible_text(failure_text(group, report, style));
  const std::string_view text = base::beginning_within(whole, longest);
  return fmt::format("<details><summary>{} {}</summary>\n\n<pre>\n{}{}</pre>\n\n</details>\n\n", headline(*group.shown),
                     html_code(one_line(group.shown->info.id, id_limit)), escaped_markup(text),
                     text.size() < whole.size() ? "\n… the rest is left out\n" : "");
}

std::string all_details(std::span<const CauseGroup> groups, const Report& report, const TextStyle& style,
                        std::size_t size) {
  constexpr std::size_t shown = 50;
  Entries details(shown, size);
  for (const CauseGroup& group : groups) {
    if (!details.add(details_text(group, report, style))) break;
  }
  const std::string left_out =
      details.taken() == 0 ? std::string() : left_out_text(groups.subspan(details.taken()), " of these details");
  return details.text() + left_out;
}

std::string failures_section(const Report& report, const TextStyle& style, std::size_t size) {
  const std::vector<CauseGroup> groups = failure_groups(report, style);
  if (groups.empty()) return {};
  constexpr std::string_view title = "\n### Failures by cause\n\n";
  return fmt::format("{}{}\n{}", title, causes_table(groups, report, size / 4),
                     all_details(groups, report, style, size - size / 4 - title.size() - 1));
}

/// Lines of a list, and how many more there are.
std::string list_section(std::string_view title, std::span<const std::string> lines, std::size_t size) {
  constexpr std::size_t shown = 20;
  if (lines.empty()) return {};
  Entries entries(shown, size - title.size() - 10);
  for (const std::string& line : lines) {
    if (!entries.add(fmt::format("* {}\n", line))) break;
  }
  const std::size_t left = lines.size() - entries.taken();
  return fmt::format("\n### {}\n\n{}{}", title, entries.text(), left == 0 ? "" : fmt::format("* {} more\n", left));
}

std::vector<std::string> lines_of(const std::vector<RunFailure>& failures) {
  std::vector<std::string> lines;
  for (const RunFailure& failure : failures) {
    for (const std::string& sentence : failure.sentences)
      lines.push_back(fmt::format("{}: {}", failure.name, code(sentence, reason_limit)));
  }
  return lines;
}

/// A line for each reason, with the number of its cases. The most frequent reason comes first.
std::vector<std::string> excuse_lines(const Report& report, bool waived) {
  std::map<std::string, std::size_t> counts;
  for (const CaseResult& result : report.cases) {
    if (result.superseded || exported_as(result) != ExportedAs::skipped || (result.waiver >= 0) != waived) continue;
    ++counts[excuse_line(result, report)];
  }
  std::vector<std::pair<std::size_t, std::string_view>> reasons;
  for (const auto& [reason, count] : counts) reasons.emplace_back(count, reason);
  std::ranges::stable_sort(reasons, std::greater(), [](const auto& one) { return one.first; });
  std::vector<std::string> lines;
  for (const auto& [count, reason] : reasons)
    lines.push_back(fmt::format("{}: {}", plural(count, "case", "cases"), code(reason, reason_limit)));
  return lines;
}

std::vector<std::string> not_run_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const CaseResult& result : report.cases) {
    if (!result.superseded && result.verdict == Verdict::not_run) lines.push_back(code(result.info.id, id_limit));
  }
  return lines;
}

std::vector<std::string> flaky_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const std::string& id : report.flaky()) lines.push_back(code(id, id_limit));
  return lines;
}

std::vector<std::string> slowest_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const CaseResult* const result : slowest_cases(report))
    lines.push_back(fmt::format("{} {}{}", duration_text(result->duration_ns), code(result->info.id, id_limit),
                                repetition_text(*result)));
  return lines;
}

std::string head_text(const Report& report) {
  const bool is_good = exit_code(report) == all_passed;
  std::string text =
      fmt::format("## shardproof: {}\n\n{}\n\n", is_good ? "passed" : "failed", totals_text(report, false));
  text += fmt::format("Subject {}", code(report.head.subject.empty() ? "none" : report.head.subject, id_limit));
  if (!report.head.fault.empty()) text += fmt::format(" with fault {}", code(report.head.fault, id_limit));
  text += fmt::format(", seed {}", report.head.seed);
  if (!report.head.run_id.empty()) text += fmt::format(", run {}", code(report.head.run_id, id_limit));
  if (const auto hosts = names_of_hosts(report); !hosts.empty())
    text += fmt::format(", {}: {}", plural(hosts.size(), "host", "hosts"),
                        code(fmt::format("{}", fmt::join(hosts, ", ")), id_limit));
  return text + ".\n";
}

}  // namespace

std::string markdown(const Report& report, const TextStyle& style, std::size_t limit) {
  std::string rest;
  const auto add = [&](std::string_view title, const std::vector<std::string>& lines) {
    rest += list_section(title, lines, limit / 16);
  };
  add("Not run", not_run_lines(report));
  add("Waived", excuse_lines(report, true));
  add("Skipped", excuse_lines(report, false));
  add("Flaky", flaky_lines(report));
  add("Slowest", slowest_lines(report));
  std::string text = head_text(report) + list_section("The run", lines_of(run_failures(report)), limit / 16);
  text += failures_section(report, style, limit - text.size() - rest.size());
  return text + rest;
}

}  // namespace shardproof::reports
