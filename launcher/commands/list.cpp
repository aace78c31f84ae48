// `shardproof list`: a worker's cases, as a table or as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/commands/shared_options.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/worker_client/profile.hpp"
#include "launcher/worker_client/subject.hpp"
#include "reports/export/columns.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {

using protocol::CaseInfo;
using protocol::FaultInfo;
using protocol::Listing;
using protocol::SeedInfo;
using reports::printable_line;

namespace {

constexpr HelpText list_help{
    .name = "list",
    .summary = "List the cases of a worker.",
    .examples =
        "    shardproof list overlap                      the cases of a suite\n"
        "    shardproof list --clauses                    each clause, its cases and its faults\n"
        "    shardproof list --worker ./my_tests --json   the cases of your own program, as JSON\n",
    .arguments = "[FILTER...]",
    .footer =
        "Filters:\n"
        "    A filter is a suite, a case id, a glob over ids (* and ?), or a [tag].\n"
        "    The list has each case that at least one filter selects. Without filters, it has all.\n"
        "    After the word --, each word is a filter.\n"
        "\n"
        "Exit codes:\n"
        "    0      The cases are listed.\n"
        "    2      The command line is wrong, no case is selected, or output cannot be written.\n"
        "    3      The worker did not list its cases.\n"
        "    128+N  Signal N interrupted the command."};

using nlohmann::ordered_json;

struct ClauseRow {
  protocol::ClauseInfo clause;
  std::vector<std::string> cases;
  std::vector<FaultInfo> faults;
};

bool cites(const auto& item, const std::string& clause) {
  return std::ranges::find(item.clauses, clause) != item.clauses.end();
}

/// The clauses that the selected cases check. If all cases are selected, every clause: one without a case is a gap.
std::vector<ClauseRow> clause_rows(const Listing& listing, const std::vector<CaseInfo>& cases, std::size_t all_cases) {
  std::vector<ClauseRow> rows;
  for (const protocol::ClauseInfo& clause : listing.clauses) {
    ClauseRow row{.clause = clause, .cases = {}, .faults = {}};
    for (const CaseInfo& info : cases) {
      if (cites(info, clause.id)) row.cases.push_back(info.id);
    }
    if (row.cases.empty() && cases.size() < all_cases) continue;
    std::ranges::copy_if(listing.faults, std::back_inserter(row.faults),
                         [&](const FaultInfo& fault) { return cites(fault, clause.id); });
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string case_count_text(std::size_t count) { return fmt::format("{} case{}", count, count == 1 ? "" : "s"); }

/// `5 cases, 2 of them on request`: `run` selects the latter only by id or --ranks.
std::string case_count_text(const std::vector<CaseInfo>& cases) {
  const auto on_request = std::ranges::count_if(cases, &CaseInfo::on_request);
  return case_count_text(cases.size()) + (on_request > 0 ? fmt::format(", {} of them on request", on_request) : "");
}

/// Case names without parameters, each once.
std::vector<std::string_view> names_of(const std::vector<std::string>& ids) {
  std::vector<std::string_view> names;
  for (const std::string_view id : ids) {
    const std::string_view name = id.substr(0, id.find('['));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string document(const ordered_json& json) { return base::dump_document(json) + "\n"; }

std::string clauses_text(const Listing& listing, const std::vector<CaseInfo>& cases, std::size_t all_cases, bool json) {
  const std::vector<ClauseRow> rows = clause_rows(listing, cases, all_cases);
  if (json) {
    ordered_json all = ordered_json::array();
    for (const ClauseRow& row : rows) {
      ordered_json entry = row.clause;
      entry["cases"] = row.cases;
      entry["faults"] = ordered_json::array();
      for (const FaultInfo& fault : row.faults) entry["faults"].push_back(fault.name);
      all.push_back(std::move(entry));
    }
    return document(all);
  }
  if (rows.empty())
    return listing.clauses.empty() ? "the worker describes no clause\n" : "the selected cases check no clause\n";
  std::string text;
  for (const ClauseRow& row : rows) {
    text += fmt::format("{} ({}): {}\n", printable_line(row.clause.id), row.clause.required ? "required" : "reference",
                        printable_line(row.clause.text));
    text += fmt::format("  {}{}\n", case_count_text(row.cases.size()),
                        row.cases.empty() ? "" : " of " + reports::few_of(names_of(row.cases)));
    text += fmt::format("  {} fault{}\n", row.faults.size(), row.faults.size() == 1 ? "" : "s");
    for (const FaultInfo& fault : row.faults)
      text += fmt::format("    {}: {}\n", printable_line(fault.name), printable_line(fault.what));
  }
  return text;
}

std::string profiles_text(const Listing& listing, const std::vector<CaseInfo>& cases, bool json) {
  ordered_json all = ordered_json::array();
  std::string text;
  for (const protocol::ProfileInfo& profile : listing.profiles) {
    std::vector<CaseInfo> its_cases;
    std::ranges::copy_if(cases, std::back_inserter(its_cases),
                         [&](const CaseInfo& info) { return protocol::is_in(profile, info, listing); });
    const bool is_default = &profile == &listing.profiles.front();
    ordered_json entry = profile;
    entry["default"] = is_default;
    entry["cases"] = its_cases.size();
    all.push_back(std::move(entry));
    text += fmt::format("{}{}: {}, {}\n", printable_line(profile.name), is_default ? " (default)" : "",
                        printable_line(profile.text), case_count_text(its_cases));
  }
  if (json) return document(all);
  return text.empty() ? "the worker has no profile\n" : text;
}

/// The seed tests. With filters, those that have a part in the selected cases. `all_cases`: the number of the worker's
/// cases.
std::string seeds_text(const Listing& listing, const std::vector<CaseInfo>& cases, std::size_t all_cases, bool json) {
  std::set<std::string> selected;
  for (const CaseInfo& info : cases) selected.insert(info.id);
  std::vector<SeedInfo> seeds;
  for (const SeedInfo& seed : listing.seeds) {
    SeedInfo kept{.seed = seed.seed, .cases = {}};
    for (const std::string& id : seed.cases) {
      if (selected.contains(id)) kept.cases.push_back(id);
    }
    if (!kept.cases.empty() || cases.size() == all_cases) seeds.push_back(std::move(kept));
  }
  if (json) return document(seeds);
  if (seeds.empty()) return "no case restates a seed test\n";
  std::string text;
  for (const SeedInfo& seed : seeds) {
    text += printable_line(seed.seed) + "\n";
    for (const std::string& id : seed.cases) text += fmt::format("  {}\n", printable_line(id));
  }
  return text;
}

/// A longer id does not make the column of ids wider.
constexpr std::size_t id_columns = 80;

std::string table_text(const std::vector<CaseInfo>& cases, bool json) {
  if (json) return document(cases);
  std::size_t width = 0;
  std::string text;
  for (const CaseInfo& info : cases) width = std::max(width, std::min(info.id.size(), id_columns));
  for (const CaseInfo& info : cases) {
    std::string line = fmt::format("{:<{}}  {}", printable_line(info.id), width,
                                   printable_line(fmt::format("{}", fmt::join(info.clauses, ","))));
    for (const std::string& tag : info.tags) line += fmt::format(" [{}]", printable_line(tag));
    if (info.on_request) line += " on request";
    if (info.on_threads) line += " on threads";
    if (info.hosts > 1) line += fmt::format(" on {} hosts", info.hosts);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text + case_count_text(cases) + "\n";
}

class ListCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return list_help; }

  void declare(OptionDeclarations& options) override {
    declare_profile(options, profile_, "all cases");
    declare_ranks(options, texts_, "List");
    declare_subject(options, subject_);
    declare_worker(options, worker_, "the cases from");
    options.flag(terminal_group, "--json", json_, "Print JSON.");
    options.flag(terminal_group, "--seeds", seeds_,
                 "Print each test of the PyTorch files that the suites began with, and its cases.");
    options.flag(terminal_group, "--clauses", clauses_,
                 "Print each clause, the cases that check it, and the faults that break it. With filters, print the "
                 "clauses of the selected cases. With --json, each case has its id.");
    options.exclude("--clauses", "--seeds");
    options.flag(terminal_group, "--profiles", profiles_, "Print the profiles, and how many of the cases each has.");
    options.exclude("--profiles", "--seeds");
    options.exclude("--profiles", "--clauses");
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override {
    filters_ = arguments.words;
    ranks_ = world_sizes(texts_.ranks);
  }

  int run(const std::vector<std::string>& /*argv*/) override {
    SignalWatch signals;
    Worker worker = choose_subject(subject_, worker_, signals).worker;
    const std::size_t all_cases = worker.listing.cases.size();
    if (!profile_.empty()) keep_profile(worker.listing, profile_, filters_);
    std::vector<CaseInfo> cases = matching_cases(worker.listing, filters_, worker_);
    if (!ranks_.empty()) keep_sizes(cases, ranks_);
    const std::string text = seeds_      ? seeds_text(worker.listing, cases, all_cases, json_)
                             : clauses_  ? clauses_text(worker.listing, cases, all_cases, json_)
                             : profiles_ ? profiles_text(worker.listing, cases, json_)
                                         : table_text(cases, json_);
    print_output(json_ ? text : reports::fitted(text));
    return all_passed;
  }

 private:
  WorldTexts texts_;
  std::vector<std::string> filters_;
  std::vector<int> ranks_;  ///< world sizes; empty: all
  std::string subject_;  ///< empty: the worker's first
  std::string profile_;  ///< empty: all cases
  std::filesystem::path worker_;
  bool json_ = false;
  bool seeds_ = false;     ///< show which seed test became which cases
  bool clauses_ = false;   ///< show each clause's cases and faults
  bool profiles_ = false;  ///< show what each profile is for
};

}  // namespace

std::unique_ptr<Subcommand> make_list_command() { return std::make_unique<ListCommand>(); }

}  // namespace shardproof::launcher
