// `shardproof statement`: which clauses an engine meets, from the report of a run.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/input_file.hpp"
#include "harness/base/json_text.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/records.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/statement/statement.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText statement_help{
    .name = "statement",
    .summary = "State which clauses an engine meets, for its users.",
    .examples =
        "    shardproof statement my_run                  a run directory, as Markdown\n"
        "    shardproof statement my_run --json           the same, as JSON\n",
    .arguments = "REPORT",
    .footer =
        "The texts of the clauses are from --worker. The default is the file listing.json beside the report.\n"
        "Without both, the statement has no texts, and only the clauses that the run checked.\n"
        "\n"
        "Exit codes:\n"
        "    0  The statement is printed, also if a clause is not met.\n"
        "    2  The command line is wrong, the file is not a valid report, or output cannot be written.\n"
        "    3  The worker did not list its cases."};

/// The listing that the run recorded, or the listing of `worker`. Empty: neither exists.
std::optional<protocol::Listing> listing_of(const std::filesystem::path& report, const std::filesystem::path& worker) {
  if (!worker.empty()) {
    SignalWatch signals;
    return ask_worker(worker, signals).listing;
  }
  const std::filesystem::path file = listing_file({report_path(report).parent_path()});
  if (!base::is_there(file)) return std::nullopt;
  try {
    return parse_listing(base::read_evidence(file));
  } catch (const std::exception& error) {
    throw CommandError(usage, fmt::format("{}: {} (--worker gives the clauses, too)", file.string(), error.what()));
  }
}

class StatementCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return statement_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("report", report_, "A report.json or a run directory.");
    options.value(subject_group, "--worker", worker_, "PROGRAM", "Take the texts of the clauses from this program.");
    options.flag(terminal_group, "--json", json_, "Print JSON.");
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override { require_arguments(arguments, {{"REPORT", report_}}); }

  int run(const std::vector<std::string>& /*argv*/) override {
    const reports::Report report = read_report_file(report_, [](std::istream& in) { return reports::read_report(in); });
    const std::optional<protocol::Listing> listing = listing_of(report_, worker_);
    const reports::Statement statement = reports::statement_of(report, listing ? &*listing : nullptr);
    print_output(json_ ? base::dump_document(reports::to_json(statement)) + "\n" : reports::to_markdown(statement));
    return all_passed;
  }

 private:
  std::filesystem::path report_;
  std::filesystem::path worker_;  ///< Empty: the run's own listing.
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_statement_command() { return std::make_unique<StatementCommand>(); }

}  // namespace shardproof::launcher
