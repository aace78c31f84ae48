#include "launcher/explore/contenders.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/json_text.hpp"
#include "harness/protocol/play_result.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "tests/launcher/refusal.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a comma separates two subjects, and the last plus separates a fault from its subject") {
  using Two = std::array<NamedSubject, 2>;
  CHECK(two_subjects("reference,pytorch") == Two{{{"reference", ""}, {"pytorch", ""}}});
  CHECK(two_subjects("reference,reference+late_gather") == Two{{{"reference", ""}, {"reference", "late_gather"}}});
  CHECK(two_subjects("./a+b.so+fault,c++") == Two{{{"./a+b.so", "fault"}, {"c++", ""}}});
  CHECK(two_subjects("./a+b.so,/c+d/e.so") == Two{{{"./a+b.so", ""}, {"/c+d/e.so", ""}}});
  CHECK(names_two("a,b"));
  CHECK_FALSE(names_two("a+b"));
}

TEST_CASE("a comma in the path of an existing file does not separate two subjects") {
  using Two = std::array<NamedSubject, 2>;
  const TemporaryDirectory directory;
  const std::string one = directory / "a,b.so", other = directory / "c,d,e.so";
  CHECK(names_two(one));
  write_text(one, "");
  write_text(other, "");
  CHECK_FALSE(names_two(one));
  CHECK_THAT(refusal([&] { two_subjects(one); }), ContainsSubstring("this file is one subject"));
  CHECK(names_two(one + ",reference"));
  CHECK(two_subjects(one + ",reference") == Two{{{one, ""}, {"reference", ""}}});
  CHECK(two_subjects("reference+late_gather," + one) == Two{{{"reference", "late_gather"}, {one, ""}}});
  CHECK(two_subjects(other + "+late_gather," + one + "+early") == Two{{{other, "late_gather"}, {one, "early"}}});
  CHECK_THAT(refusal([&] { two_subjects(one + ",reference," + one); }), ContainsSubstring("name two subjects as A,B"));
}

TEST_CASE("an argument that does not name two subjects is refused with the right form") {
  for (const std::string requested : {"a,", ",b", ",", "a,b,c", "a", ""}) {
    CAPTURE(requested);
    CHECK_THAT(refusal([&] { two_subjects(requested); }), ContainsSubstring("name two subjects as A,B"));
  }
}

TEST_CASE(
    "the runs of two subjects lie by the names that these have of themselves, however long the paths are that they "
    "were asked by") {
  const std::string path = "/" + std::string(300, 'd') + "/engine.so";
  std::array<Contender, 2> contenders{{{.requested = path, .worker = {}, .plan = {}, .subject = {.name = "c_engine"}},
                                       {.requested = path + "+late_gather",
                                        .worker = {},
                                        .plan = {.fault = "late_gather"},
                                        .subject = {.name = "c_engine"}}}};
  CHECK(folder_of(contenders, 0, "out") == "out/1-c_engine");
  CHECK(folder_of(contenders, 1, "out") == "out/2-c_engine+late_gather");
}

TEST_CASE("a play has no result when any rank's result is missing or incomplete") {
  const TemporaryDirectory directory;
  const protocol::WorldDirectory world{directory / "world"};
  const std::string id = "play/scenario[W=2]";
  const auto leave = [&](int rank, const std::string& text) {
    std::filesystem::create_directories(world.play_result(id, rank).parent_path());
    write_text(world.play_result(id, rank), text);
  };
  const std::string whole = base::dump_line(protocol::PlayResult{.rank = 0});
  leave(0, whole);
  CHECK(play_results(world, id, 1).size() == 1);
  CHECK(play_results(world, id, 2).empty());
  for (const std::string& broken :
       {std::string(), whole.substr(0, whole.size() / 2), std::string("{}"), std::string("[]")}) {
    CAPTURE(broken);
    leave(1, broken);
    CHECK(play_results(world, id, 2).empty());
  }
}
