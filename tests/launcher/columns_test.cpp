// The text of commands for people fits into 120 columns, whatever the length of ids, texts and messages.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "reports/export/columns.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// What the command prints, in lines that fit. A command to copy may be longer.
std::string fitting(const std::vector<std::string>& command) {
  const Said said = call(command);
  INFO(command.front() << '\n' << said.err);
  CHECK(said.out.size() > 200);
  std::istringstream lines(said.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  again: ") || line.starts_with("  what it played: ") || line.starts_with("report: "))
      continue;
    INFO(line);
    CHECK(reports::columns_of(line) <= reports::text_columns);
  }
  return said.out;
}

}  // namespace

TEST_CASE("text for people has at most 120 columns, and shortens long ids in the middle") {
  const TemporaryDirectory directory;
  const std::string worker = SHARDPROOF_WIDE_PROGRAM, good = directory / "good", bad = directory / "bad";
  const auto with_worker = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--worker", worker});
    return words;
  };
  CHECK_THAT(fitting(with_worker({"list"})),
             ContainsSubstring("wide/a_name_that") && ContainsSubstring("a_tag_of_a_case"));
  fitting(with_worker({"list", "--clauses"}));
  fitting(with_worker({"run", "--out", good, "--slowest", "2"}));
  fitting(with_worker({"run", "--out", bad, "--fault", "fault_3"}));
  fitting(with_worker({"run", "--out", directory / "verbose", "--fault", "fault_3", "--verbose"}));
  fitting({"diff", good, bad});
  fitting({"diff", good, bad, "--fail-on", "regression"});
  const std::string faults = fitting(with_worker({"faults", "wide"}));
  CHECK_THAT(faults, ContainsSubstring("30 of 30 faults killed") && ContainsSubstring("…"));
  // Two tables: columns of all 30 faults do not fit beside an id.
  CHECK_THAT(faults, ContainsSubstring("  A  B  C") && ContainsSubstring(" AB AC AD"));
}

TEST_CASE("text for programs has whole ids") {
  const std::string listed = call({"list", "--json", "--worker", SHARDPROOF_WIDE_PROGRAM}).out;
  CHECK(nlohmann::json::parse(listed).size() == 6);
  CHECK_THAT(listed, !ContainsSubstring("…"));
}
