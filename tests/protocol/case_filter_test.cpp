#include "harness/protocol/case_filter.hpp"

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>
#include <stdexcept>

namespace shardproof {
namespace {

using Catch::Matchers::ContainsSubstring;

protocol::CaseInfo listed(const std::string& name, const std::map<std::string, std::string>& params,
                          const std::vector<std::string>& tags = {}) {
  protocol::CaseInfo info;
  info.id = protocol::case_id(name, params);
  info.suite = name.substr(0, name.find('/'));
  info.params = params;
  info.tags = tags;
  return info;
}

const std::vector<protocol::CaseInfo>& cases() {
  static const std::vector<protocol::CaseInfo> all{
      listed("overlap/training_overlap", {{"W", "2"}}, {"overlap"}),
      listed("overlap/training_overlap", {{"W", "4"}}, {"overlap"}),
      listed("overlap/training_overlap_prefetch", {{"W", "2"}}),
      listed("overlap/post_optim_event", {{"W", "2"}, {"event", "true"}}, {"overlap", "slow"}),
      listed("comm_hooks/fp16", {{"W", "2"}}, {"W=2"}),
      listed("mine/plain", {})};
  return all;
}

std::vector<std::string> ids(std::vector<std::string> filters) {
  std::vector<std::string> found;
  for (const auto& info : protocol::select(cases(), filters)) found.push_back(info.id);
  return found;
}

using Ids = std::vector<std::string>;

TEST_CASE("an id has sorted parameters") {
  CHECK(protocol::case_id("a/b", {{"event", "true"}, {"W", "2"}}) == "a/b[W=2,event=true]");
  CHECK(protocol::case_id("a/b", {}) == "a/b");
}

TEST_CASE("an id cannot be made ambiguous by its parts") {
  CHECK_THROWS_WITH(protocol::case_id("a/b", {{"x", "1,y=2"}}), ContainsSubstring("parameter x"));
  for (const char* bad : {"", "1]", "[1", "a*", "a?", "a\nb"})
    CHECK_THROWS_AS(protocol::case_id("a/b", {{"x", bad}}), std::invalid_argument);
  for (const char* bad : {"", "k=", "k,", "[k"})
    CHECK_THROWS_AS(protocol::case_id("a/b", {{bad, "1"}}), std::invalid_argument);
  for (const char* bad : {"", "a/b[", "a/*"}) CHECK_THROWS_AS(protocol::case_id(bad, {}), std::invalid_argument);
  for (const char* bad : {"a/\xe9", "\xff"})
    CHECK_THROWS_WITH(protocol::case_id(bad, {}), ContainsSubstring("not UTF-8"));
}

TEST_CASE("a filter is a suite, an id, an id without parameters, a glob or a tag") {
  CHECK(ids({}).size() == cases().size());
  CHECK(ids({"overlap"}) == Ids{"overlap/training_overlap[W=2]", "overlap/training_overlap[W=4]",
                                "overlap/training_overlap_prefetch[W=2]", "overlap/post_optim_event[W=2,event=true]"});
  CHECK(ids({"overlap/training_overlap[W=4]"}) == Ids{"overlap/training_overlap[W=4]"});
  CHECK(ids({"overlap/training_overlap"}) == Ids{"overlap/training_overlap[W=2]", "overlap/training_overlap[W=4]"});
  CHECK(ids({"mine/plain"}) == Ids{"mine/plain"});
  CHECK(ids({"*[W=4]"}) == Ids{"overlap/training_overlap[W=4]"});
  CHECK(ids({"*/training_overlap"}) == Ids{"overlap/training_overlap[W=2]", "overlap/training_overlap[W=4]"});
  CHECK(ids({"comm_hooks/*"}) == Ids{"comm_hooks/fp16[W=2]"});
  CHECK(ids({"*event=true*"}) == Ids{"overlap/post_optim_event[W=2,event=true]"});
  CHECK(ids({"mine/pla??"}) == Ids{"mine/plain"});
  CHECK(ids({"[slow]"}) == Ids{"overlap/post_optim_event[W=2,event=true]"});
  CHECK(ids({"[W=2]"}) == Ids{"comm_hooks/fp16[W=2]"});
}

TEST_CASE("several filters are a union in listed order, each case once") {
  CHECK(ids({"mine/plain", "[slow]", "overlap/post_optim_event"}) ==
        Ids{"overlap/post_optim_event[W=2,event=true]", "mine/plain"});
}

TEST_CASE("the first filter that matches nothing is named") {
  for (const char* filter : {"", "over", "overlap/", "Overlap", "[fast]", "overlap/training_overlap[W=3]",
                             "overlap/training_overlap[", "mine/pla?", "?"}) {
    CAPTURE(filter);
    CHECK_THROWS_WITH(ids({"mine", filter, "nor this"}),
                      ContainsSubstring("filter \"" + std::string(filter) + "\" matches none"));
  }
  CHECK_THROWS_WITH(ids({"x"}), ContainsSubstring("comm_hooks, mine, overlap"));
}

/// The meaning of a glob, by recursion.
bool means(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') return means(pattern.substr(1), text) || (!text.empty() && means(pattern, text.substr(1)));
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) && means(pattern.substr(1), text.substr(1));
}

TEST_CASE("globs agree with their definition") {
  const auto seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  std::mt19937 random(seed);
  auto word = [&](std::string_view alphabet, std::size_t longest) {
    std::string text(random() % (longest + 1), 'a');
    for (auto& c : text) c = alphabet[random() % alphabet.size()];
    return text;
  };
  std::size_t matched = 0;
  for (int i = 0; i < 20000; ++i) {
    protocol::CaseInfo info;
    info.id = word("ab/", 8);
    const auto pattern = word("ab*?/", 6);
    if (pattern.empty()) continue;
    const bool expected = means(pattern, info.id);
    CAPTURE(pattern, info.id);
    if (protocol::matches(info, pattern) != expected) FAIL();
    matched += expected ? 1U : 0U;
  }
  CHECK(matched > 1000);
}

TEST_CASE("a pattern of ids knows neither suites nor tags") {
  CHECK(protocol::matches_id("a/b[W=2]", "a/b[W=2]"));
  CHECK(protocol::matches_id("a/b[W=2]", "a/b"));
  CHECK(protocol::matches_id("a/b[W=2]", "a/*"));
  CHECK(protocol::matches_id("a/b[W=2]", "*[W=?]"));
  CHECK_FALSE(protocol::matches_id("a/b[W=2]", "a"));
  CHECK_FALSE(protocol::matches_id("a/b[W=2]", "a/b[W=3]"));
  CHECK_FALSE(protocol::matches_id("[a]/b", "[a]"));
}

TEST_CASE("a glob of many stars ends soon") {
  protocol::CaseInfo info;
  info.id = std::string(20000, 'a');
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  CHECK_FALSE(protocol::matches(info, pattern + "b"));
  CHECK(protocol::matches(info, pattern));
}

}  // namespace
}  // namespace shardproof
