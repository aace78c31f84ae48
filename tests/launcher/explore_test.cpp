// `shardproof explore` on subjects that cannot be explored, or not to the end.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

nlohmann::json explored(const std::filesystem::path& directory) {
  std::ifstream file(directory / "explored.json");
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("a difference that does not show again is told as such") {
  const TemporaryDirectory directory;
  const std::filesystem::path out = directory / "out";
  const Said said = call({"explore", "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady,fickle", "--ranks", "1", "--rounds", "3",
                          "--out", out.string()},
                         {.environment = {"FICKLE_MARK=" + (directory / "mark").string()}});
  INFO(said.out << said.err);
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring("verdict differ; made smaller in 0 steps of") &&
                           ContainsSubstring("; played once more, it did not show:\n"));
  CHECK_THAT(said.out, ContainsSubstring("this once it is another matter"));
  const auto found = explored(out).at("differences").at(0);
  CHECK(found.at("steady") == false);
  CHECK(found.at("smallest") == true);
}

TEST_CASE("two that refuse everything agree on everything") {
  const TemporaryDirectory directory;
  const std::filesystem::path out = directory / "out";
  const Said said =
      call({"explore", "--worker", SHARDPROOF_FICKLE_PROGRAM, "--subject", "steady,fickle", "--rounds", "5", "--out", out.string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(explored(out).at("alike") == 5);
  CHECK(explored(out).at("features") == nlohmann::json::array({"fully_shard"}));
}

TEST_CASE("a subject that scenarios are not made for is not explored") {
  const Said said = call({"explore", "--worker", SHARDPROOF_SUBJECTS_PROGRAM, "--subject", "first,second"});
  CHECK(said.end == code(2));
  CHECK(said.err == "shardproof: subject first does not claim fully_shard, which scenarios are made for\n");
}
