// `shardproof list`: what a worker has, as a table or as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/commands.hpp"
#include "launcher/plan.hpp"
#include "launcher/worker.hpp"

namespace shardproof::launcher {
namespace {

using nlohmann::ordered_json;

struct ClauseRow {
  ClauseInfo clause;
  std::vector<std::string> cases, faults;
};

std::vector<ClauseRow> clause_rows(const Listing& listing, const std::vector<CaseInfo>& cases) {
  const auto names = [](const auto& items, const std::string& clause, auto name) {
    std::vector<std::string> result;
    for (const auto& item : items) {
      if (std::find(item.clauses.begin(), item.clauses.end(), clause) != item.clauses.end()) result.push_back(item.*name);
    }
    return result;
  };
  std::vector<ClauseRow> rows;
  for (const ClauseInfo& clause : listing.clauses) {
    rows.push_back({clause, names(cases, clause.id, &CaseInfo::id), names(listing.faults, clause.id, &FaultInfo::name)});
  }
  return rows;
}

void print_json(const ordered_json& json) { fmt::print("{}\n", json.dump(2)); }

void list_clauses(const std::vector<ClauseRow>& rows, bool json) {
  if (json) {
    ordered_json all = ordered_json::array();
    for (const ClauseRow& row : rows) {
      ordered_json entry = row.clause;
      entry["cases"] = row.cases;
      entry["faults"] = row.faults;
      all.push_back(std::move(entry));
    }
    print_json(all);
    return;
  }
  for (const ClauseRow& row : rows) {
    fmt::print("{} ({}): {}\n", row.clause.id, row.clause.required ? "required" : "reference", row.clause.text);
    for (const std::string& id : row.cases) fmt::print("  case   {}\n", id);
    for (const std::string& name : row.faults) fmt::print("  fault  {}\n", name);
  }
}

/// With filters, the seeds that have a part in the selected cases.
void list_seeds(const Listing& listing, const std::vector<CaseInfo>& cases, bool json) {
  std::set<std::string> selected;
  for (const CaseInfo& info : cases) selected.insert(info.id);
  std::vector<SeedInfo> seeds;
  for (const SeedInfo& seed : listing.seeds) {
    SeedInfo kept{.seed = seed.seed, .cases = {}};
    for (const std::string& id : seed.cases) {
      if (selected.contains(id)) kept.cases.push_back(id);
    }
    if (!kept.cases.empty() || cases.size() == listing.cases.size()) seeds.push_back(std::move(kept));
  }
  if (json) {
    print_json(ordered_json(seeds));
    return;
  }
  for (const SeedInfo& seed : seeds) {
    fmt::print("{}\n", seed.seed);
    for (const std::string& id : seed.cases) fmt::print("  {}\n", id);
  }
}

void list_cases(const std::vector<CaseInfo>& cases, bool json) {
  if (json) {
    print_json(ordered_json(cases));
    return;
  }
  std::size_t width = 0;
  for (const CaseInfo& info : cases) width = std::max(width, info.id.size());
  for (const CaseInfo& info : cases) {
    std::string line = fmt::format("{:<{}}  {}", info.id, width, fmt::join(info.clauses, ","));
    for (const std::string& tag : info.tags) line += fmt::format(" [{}]", tag);
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  fmt::print("{} case{}\n", cases.size(), cases.size() == 1 ? "" : "s");
}

}  // namespace

int list_command(const ListOptions& options) {
  const Worker worker = ask_worker(options.worker);
  const std::vector<CaseInfo> cases = select_cases(worker.listing, options.filters);
  if (options.seeds) {
    list_seeds(worker.listing, cases, options.json);
  } else if (options.clauses) {
    list_clauses(clause_rows(worker.listing, cases), options.json);
  } else {
    list_cases(cases, options.json);
  }
  return 0;
}

}  // namespace shardproof::launcher
