// The file store on a network file system, which shows files of other hosts late.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "harness/rendezvous/file_store.hpp"
#include "tests/rendezvous/late_files.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using shardproof::testing::FileServer;
using shardproof::testing::LateFiles;

namespace {

control::Deadline after(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

rendezvous::FileStore store_on(std::shared_ptr<LateFiles> host, int rank) {
  return {"/shared", "mine", rank, std::move(host)};
}

}  // namespace

TEST_CASE("ranks on hosts that see files late find each other's values") {
  const auto seed = GENERATE(range(0U, 6U));
  CAPTURE(seed);
  constexpr int ranks = 6;
  FileServer server;
  const auto exchange = [&](int rank) {
    const auto host = std::make_shared<LateFiles>(server, 3, 100 * seed + static_cast<unsigned>(rank));
    rendezvous::FileStore store = store_on(host, rank);
    std::vector<std::string> found;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::string> keys;
      for (int of = 0; of < ranks; ++of) keys.push_back(fmt::format("{}/{}", round, of));
      store.put(keys[static_cast<std::size_t>(rank)], fmt::format("{} in round {}", rank, round));
      for (std::string& value : store.wait(keys, after(std::chrono::minutes(5)))) found.push_back(std::move(value));
    }
    return found;
  };
  std::vector<std::future<std::vector<std::string>>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(std::async(std::launch::async, exchange, rank));
  for (auto& one : all) {
    const std::vector<std::string> found = one.get();
    REQUIRE(found.size() == 3 * ranks);
    for (int i = 0; i < 3 * ranks; ++i)
      CHECK(found[static_cast<std::size_t>(i)] == fmt::format("{} in round {}", i % ranks, i / ranks));
  }
}

TEST_CASE("a host that sees a poison late throws it, and not the torn file") {
  FileServer server;
  rendezvous::FileStore healthy = store_on(std::make_shared<LateFiles>(server, 0, 1), 0);
  healthy.put("a", "a value");
  healthy.poison("no GPU here");
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const rendezvous::FileStore late = store_on(std::make_shared<LateFiles>(server, 6, seed), 1);
    CHECK_THROWS_AS(late.wait("missing", after(std::chrono::minutes(5))), rendezvous::StorePoisoned);
  }
}

TEST_CASE("a second writer is refused, also before its host sees the first value") {
  FileServer server;
  store_on(std::make_shared<LateFiles>(server, 0, 1), 2).put("id", "first");
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    CHECK_THROWS_MATCHES(store_on(std::make_shared<LateFiles>(server, 2, seed), 5).put("id", "second"),
                         rendezvous::KeyExists,
                         MessageMatches(ContainsSubstring("which rank 2 has written already") ||
                                        ContainsSubstring("which a rank that this host does not see yet has written")));
  }
}

TEST_CASE("a value that stays torn is an error at the deadline") {
  FileServer server;
  REQUIRE(server.add("/shared/values/key.id", "not a value, but 32 bytes and more of text"));
  const rendezvous::FileStore store = store_on(std::make_shared<LateFiles>(server, 0, 1), 0);
  CHECK_THROWS_MATCHES(store.wait("id", after(std::chrono::milliseconds(20))), rendezvous::TornValue,
                       MessageMatches(ContainsSubstring("/shared/values/key.id: not a value of this store")));
}
