#include "launcher/commands/kill_matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "reports/export/columns.hpp"

namespace shardproof::launcher {

using protocol::CaseInfo;

namespace {

using reports::Verdict;

bool shares(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& item) { return std::find(b.begin(), b.end(), item) != b.end(); });
}

std::map<std::string, Verdict> verdicts(const reports::Report& report) {
  std::map<std::string, Verdict> result;
  for (const reports::CaseResult& one : report.cases) {
    const auto [at, fresh] = result.emplace(one.info.id, one.verdict);
    if (!fresh) at->second = std::max(at->second, one.verdict);
  }
  return result;
}

std::set<std::string> waived_cases(const reports::Report& report) {
  std::set<std::string> result;
  for (const reports::CaseResult& one : report.cases) {
    if (one.waiver >= 0) result.insert(one.info.id);
  }
  return result;
}

/// The clauses that failures of a case name, by case.
std::map<std::string, std::set<std::string>> named_clauses(const reports::Report& report) {
  std::map<std::string, std::set<std::string>> named;
  for (const reports::CaseResult& one : report.cases) {
    for (const reports::Failure& failure : one.failures)
      named[one.info.id].insert(failure.assertion.clauses.begin(), failure.assertion.clauses.end());
  }
  return named;
}

/// `names`: a failure of the case names a clause that the fault breaks.
Cell judge(const std::string& id, const std::map<std::string, Verdict>& clean,
           const std::map<std::string, Verdict>& faulty, bool names) {
  const auto without = clean.find(id), with = faulty.find(id);
  const bool is_skipped = without != clean.end() && without->second == Verdict::skipped;
  if (is_skipped && with != faulty.end() && with->second == Verdict::skipped) return Cell::skipped;
  if (without == clean.end() || without->second != Verdict::passed || with == faulty.end()) return Cell::unknown;
  switch (with->second) {
    case Verdict::passed: return Cell::survived;
    case Verdict::failed: return names ? Cell::killed : Cell::elsewhere;
    case Verdict::skipped:
    case Verdict::not_run: return Cell::unknown;
    case Verdict::error:
    case Verdict::disagreed:
    case Verdict::hung:
    case Verdict::crashed: return Cell::derailed;
  }
  return Cell::unknown;
}

std::string column_name(std::size_t column) {
  std::string name;
  for (std::size_t left = column + 1; left > 0; left = (left - 1) / 26)
    name.insert(name.begin(), static_cast<char>('A' + (left - 1) % 26));
  return name;
}

const char* mark(Cell cell) {
  switch (cell) {
    case Cell::unrelated: return " ";
    case Cell::skipped:
    case Cell::waived:
    case Cell::unknown: return "?";
    case Cell::survived: return ".";
    case Cell::derailed: return "!";
    case Cell::elsewhere: return "o";
    case Cell::killed: return "x";
  }
  return " ";
}

}  // namespace

bool FaultRow::judged() const {
  const auto related = [](Cell cell) { return cell != Cell::unrelated; };
  return std::ranges::none_of(cells, related) || !std::ranges::all_of(cells, [&](Cell cell) {
           return !related(cell) || cell == Cell::skipped || cell == Cell::waived;
         });
}

bool KillMatrix::all_killed() const {
  return std::all_of(rows.begin(), rows.end(), [](const FaultRow& row) { return row.killed() || !row.judged(); });
}

std::vector<CaseInfo> related_cases(const protocol::FaultInfo& fault, const std::vector<CaseInfo>& cases) {
  std::vector<CaseInfo> related;
  std::copy_if(cases.begin(), cases.end(), std::back_inserter(related),
               [&](const CaseInfo& info) { return shares(info.clauses, fault.clauses); });
  return related;
}

KillMatrix kill_matrix(const std::vector<protocol::FaultInfo>& faults, const std::vector<CaseInfo>& cases,
                       const reports::Report& clean, const std::vector<reports::Report>& faulty) {
  KillMatrix matrix;
  std::vector<const CaseInfo*> columns;
  for (const CaseInfo& info : cases) {
    if (std::none_of(faults.begin(), faults.end(),
                     [&](const protocol::FaultInfo& fault) { return shares(info.clauses, fault.clauses); }))
      continue;
    columns.push_back(&info);
    matrix.cases.push_back(info.id);
  }
  const auto without = verdicts(clean);
  const std::set<std::string> waived = waived_cases(clean);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    FaultRow row{.fault = faults[i], .cells = {}, .by = {}, .named = {}};
    const auto with = verdicts(faulty[i]);
    const auto named = named_clauses(faulty[i]);
    std::set<std::string> named_of_fault;
    for (const CaseInfo* info : columns) {
      std::vector<std::string> here;  // clauses of the fault that failures of the case name
      if (const auto found = named.find(info->id); found != named.end()) {
        std::ranges::copy_if(faults[i].clauses, std::back_inserter(here),
                             [&](const std::string& clause) { return found->second.contains(clause); });
      }
      const Cell cell = !shares(info->clauses, faults[i].clauses) ? Cell::unrelated
                        : waived.contains(info->id)               ? Cell::waived
                                                                  : judge(info->id, without, with, !here.empty());
      row.cells.push_back(cell);
      if (cell != Cell::killed) continue;
      row.by.push_back(info->id);
      named_of_fault.insert(here.begin(), here.end());
    }
    row.named.assign(named_of_fault.begin(), named_of_fault.end());
    matrix.rows.push_back(std::move(row));
  }
  return matrix;
}

nlohmann::ordered_json to_json(const KillMatrix& matrix) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const FaultRow& row : matrix.rows) {
    json.push_back({{"name", row.fault.name},
                    {"clauses", row.fault.clauses},
                    {"what", row.fault.what},
                    {"judged", row.judged()},
                    {"killed", row.killed()},
                    {"by", row.by},
                    {"named", row.named}});
  }
  return json;
}

namespace {

/// The rows of the matrix from `first` to `last`, as columns of a table. If it is one of several tables, it has only
/// cases that check a clause of these faults.
std::string table_text(const KillMatrix& matrix, std::size_t first, std::size_t last, std::size_t id_columns) {
  const bool is_part = last - first < matrix.rows.size();
  std::string text(id_columns, ' ');
  for (std::size_t i = first; i < last; ++i) text += fmt::format(" {:>2}", column_name(i));
  text += "\n";
  for (std::size_t j = 0; j < matrix.cases.size(); ++j) {
    const auto is_related = [j](const FaultRow& row) { return row.cells[j] != Cell::unrelated; };
    const std::span rows = std::span(matrix.rows).subspan(first, last - first);
    if (is_part && std::ranges::none_of(rows, is_related)) continue;
    std::string line = fmt::format("{:<{}}", reports::shortened(matrix.cases[j], id_columns), id_columns);
    for (const FaultRow& row : rows) line += fmt::format("  {}", mark(row.cells[j]));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text + "\n";
}

/// As many tables as fit into lines of text for people.
std::string tables_text(const KillMatrix& matrix) {
  constexpr std::size_t fault_columns = 3, most_id_columns = 60;
  std::size_t longest = 0;
  for (const std::string& id : matrix.cases) longest = std::max(longest, reports::columns_of(id));
  const std::size_t all_faults = fault_columns * matrix.rows.size();
  const std::size_t id_columns =
      longest + all_faults <= reports::text_columns
          ? longest
          : std::min(longest,
                     std::max(most_id_columns, reports::text_columns - std::min(all_faults, reports::text_columns)));
  const std::size_t faults = (reports::text_columns - id_columns) / fault_columns;
  std::string text;
  for (std::size_t first = 0; first < matrix.rows.size(); first += faults)
    text += table_text(matrix, first, std::min(first + faults, matrix.rows.size()), id_columns);
  return text;
}

}  // namespace

std::string to_text(const KillMatrix& matrix, bool color) {
  const auto paint = [&](const char* code, const std::string& text) {
    return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::string text =
      "fault x case: x killed, . survived,\n"
      "! ended by the fault itself (error, disagreement, hang or crash), not by an assertion,\n"
      "o failed, but under no clause that the fault breaks,\n"
      "? not judged (skipped, not run, or not passing without the fault either),\n"
      "blank where the case checks no clause that the fault breaks;\n"
      "the letters over the columns are those of the list below\n\n";
  text += tables_text(matrix);
  std::size_t killed = 0, unjudged = 0;
  for (std::size_t i = 0; i < matrix.rows.size(); ++i) {
    const FaultRow& row = matrix.rows[i];
    killed += row.killed() ? 1 : 0;
    unjudged += row.judged() ? 0 : 1;
    const std::string verdict = row.killed()   ? paint("32", "killed")
                                : row.judged() ? paint("31", "ALIVE ")
                                               : paint("33", "not judged");
    text += fmt::format("{:>2}  {}  {} ({}): {}", column_name(i), verdict, row.fault.name,
                        fmt::join(row.fault.clauses, ", "), row.fault.what);
    const bool related =
        std::any_of(row.cells.begin(), row.cells.end(), [](Cell cell) { return cell != Cell::unrelated; });
    const bool is_waived = std::ranges::find(row.cells, Cell::waived) != row.cells.end();
    text += !row.judged() ? fmt::format(" [every case was {}]\n", is_waived ? "skipped or waived" : "skipped")
            : related     ? fmt::format(" [{} case{}]\n", row.by.size(), row.by.size() == 1 ? "" : "s")
                          : " [no selected case has one of its clauses]\n";
  }
  text += fmt::format("{} of {} fault{} killed", killed, matrix.rows.size(), matrix.rows.size() == 1 ? "" : "s");
  if (unjudged > 0) text += fmt::format(", {} not judged", unjudged);
  return reports::fitted(text + "\n");
}

}  // namespace shardproof::launcher
