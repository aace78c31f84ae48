#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "reports/export/foreign_text.hpp"
#include "reports/export/terminal.hpp"
#include "reports/statement/statement.hpp"

namespace shardproof::reports {

namespace {

/// The text as one cell of a table, or as a part of one line.
std::string cell(std::string_view text) {
  std::string one_line;
  for (const char c : printable(text)) {
    if (c == '|') one_line += '\\';
    one_line += c == '\n' || c == '\t' ? ' ' : c;
  }
  return one_line;
}

/// A text of ranks as a part of one line, in which Markdown and HTML see no markup.
std::string foreign(std::string_view text) {
  std::string escaped;
  for (const char c : escaped_markup(cell(visible_text(text)))) {
    if (c == '`' || c == '[' || c == ']' || c == '*') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : cell(text); }

std::string number_of_cases(std::size_t count) { return fmt::format("{} case{}", count, count == 1 ? "" : "s"); }

std::string few_cases(const std::vector<std::string>& ids) {
  return cell(reports::few_of(std::vector<std::string_view>(ids.begin(), ids.end())));
}

std::string device_text(const Statement& statement) {
  std::string text = or_none(fmt::format("{}", fmt::join(statement.devices, ", ")));
  std::map<std::string, std::size_t> models;
  for (const protocol::GpuInfo& gpu : statement.head.gpus) ++models[gpu.name];
  for (const auto& [model, count] : models) text += fmt::format(", {} x {}", count, cell(model));
  return text;
}

std::string head_text(const Statement& statement) {
  const RunHead& head = statement.head;
  std::string text =
      fmt::format("# Statement of conformance: {}\n\n", head.subject.empty() ? "no subject" : cell(head.subject));
  if (!head.fault.empty())
    text += fmt::format(
        "**The run put the fault `{}` into the subject. This is not a statement about the subject "
        "itself.**\n\n",
        cell(head.fault));
  text += "| of the run | |\n|---|---|\n";
  const std::array<std::pair<const char*, std::string>, 8> rows{
      {{"subject", or_none(head.subject)},
       {"version of the subject", or_none(head.subject_version)},
       {"version of the suite", or_none(head.suite_version)},
       {"date", or_none(head.started)},
       {"device", device_text(statement)},
       {"fabric", or_none(fmt::format("{}", fmt::join(statement.fabrics, ", ")))},
       {"world sizes", or_none(fmt::format("{}", fmt::join(statement.world_sizes, ", ")))},
       {"profile", or_none(head.profile) + (head.partial ? ", a part of it" : "")}}};
  for (const auto& [what, value] : rows) text += fmt::format("| {} | {} |\n", what, value);
  return text;
}

std::string evidence_text(const ClauseEvidence& evidence) {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t count, const char* how) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, how));
  };
  add(evidence.failed, "failed");
  add(evidence.waived, "waived");
  add(evidence.passed, "passed");
  add(evidence.not_run, "not run");
  add(evidence.failed_elsewhere, "failed under other clauses");
  add(evidence.unclaimed, "skipped, not claimed");
  add(evidence.skipped, "skipped");
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, "; "));
}

std::string clause_text(const ClauseRow& row) {
  const std::string kind = row.required && !*row.required ? " (reference)" : "";
  return cell(row.text) + (row.text.empty() ? "" : kind);
}

std::string table_text(const KindTable& table) {
  std::string text =
      fmt::format("\n## {}\n\n", table.engine.empty() ? "No kind of engine" : fmt::format("`{}`", cell(table.engine)));
  std::map<ClauseStatus, std::size_t> counts;
  for (const ClauseRow& row : table.clauses) ++counts[status_of(row.evidence)];
  text += fmt::format("{} clause{}:", table.clauses.size(), table.clauses.size() == 1 ? "" : "s");
  const char* separator = " ";
  for (const ClauseStatus status : all_clause_statuses) {
    if (counts[status] == 0) continue;
    text += fmt::format("{}{} {}", separator, counts[status], words_of(status));
    separator = ", ";
  }
  text += "\n\n| clause | status | cases | text |\n|---|---|---|---|\n";
  for (const ClauseRow& row : table.clauses)
    text += fmt::format("| {} | {} | {} | {} |\n", cell(row.clause), words_of(status_of(row.evidence)),
                        evidence_text(row.evidence), clause_text(row));
  return text;
}

/// One row for all waivers with the same texts, in the order of the first of them.
std::vector<UsedWaiver> rows_of(const std::vector<UsedWaiver>& waivers) {
  const auto texts = [](const UsedWaiver& used) {
    const Waiver& waiver = used.waiver;
    return std::tie(waiver.owner, waiver.reason, waiver.link, waiver.expires);
  };
  std::vector<UsedWaiver> rows;
  for (const UsedWaiver& used : waivers) {
    const auto row = std::ranges::find_if(rows, [&](const UsedWaiver& each) { return texts(each) == texts(used); });
    if (row == rows.end()) {
      rows.push_back(used);
    } else {
      row->cases.insert(row->cases.end(), used.cases.begin(), used.cases.end());
    }
  }
  return rows;
}

std::string waivers_text(const std::vector<UsedWaiver>& waivers) {
  std::string text = "\n## Waivers\n\n";
  if (waivers.empty()) return text + "No waiver excuses a case.\n";
  text += "| cases | owner | reason | expires |\n|---|---|---|---|\n";
  for (const auto& [waiver, cases] : rows_of(waivers))
    text += fmt::format("| {}: {} | {} | {} ({}) | {} |\n", number_of_cases(cases.size()), few_cases(cases),
                        cell(waiver.owner), cell(waiver.reason), cell(waiver.link), cell(waiver.expires));
  return text;
}

std::string unrun_text(const Statement& statement) {
  std::string text = "\n## Not run\n\n";
  std::string list;
  if (statement.head.partial) list += "* The run has a part of the profile: filters or shards left out the rest.\n";
  if (statement.head.outside_profile > 0)
    list +=
        fmt::format("* The profile leaves out {} of the worker.\n", number_of_cases(statement.head.outside_profile));
  for (const auto& [reason, cases] : statement.unrun)
    list += fmt::format("* {} {}: {}\n", number_of_cases(cases.size()), foreign(reason), few_cases(cases));
  return text + (list.empty() ? "Each case ran.\n" : list);
}

}  // namespace

std::string to_markdown(const Statement& statement) {
  std::string text = head_text(statement);
  for (const KindTable& table : statement.kinds) text += table_text(table);
  if (statement.kinds.empty()) text += "\nNo case of the run cites a clause.\n";
  return text + waivers_text(statement.waivers) + unrun_text(statement);
}

}  // namespace shardproof::reports
