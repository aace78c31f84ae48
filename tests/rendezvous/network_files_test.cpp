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
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "harness/rendezvous/file_store.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// The server's files. It gives a name to one file only.
class Server {
 public:
  bool add(const std::string& name, std::string_view content) {
    const std::scoped_lock lock(mutex_);
    return files_.emplace(name, content).second;
  }
  std::optional<std::string> content_of(const std::string& name) const {
    const std::scoped_lock lock(mutex_);
    const auto file = files_.find(name);
    return file == files_.end() ? std::nullopt : std::optional(file->second);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> files_;
};

/// One host's view. A file that did not exist at a look stays absent until the host refreshes its view of the
/// directory. A file of another host also stays absent for up to `most_looks` looks, and then shows a part of its
/// content in up to `most_looks` looks, both drawn from `seed`. Each host has a view of its own.
class Host final : public rendezvous::FileLayer {
 public:
  Host(Server& server, int most_looks, std::uint64_t seed) : server_(server), most_looks_(most_looks), random_(seed) {}

  void make_directory(const std::filesystem::path& /*directory*/) const override {}

  bool publish(const std::filesystem::path& /*unfinished*/, int /*rank*/, std::string_view content,
               const std::filesystem::path& file) const override {
    if (!server_.add(file.string(), content)) return false;
    views_[file.string()] = {};
    absent_.erase(file.string());
    return true;
  }

  std::optional<std::string> read(const std::filesystem::path& file) const override {
    if (absent_.contains(file.string())) return std::nullopt;
    std::optional<std::string> content = server_.content_of(file.string());
    if (!content) {
      absent_.insert(file.string());
      return content;
    }
    const auto draw = [&] { return std::uniform_int_distribution(0, most_looks_)(random_); };
    const auto [view, is_new] = views_.try_emplace(file.string());
    if (is_new) view->second = {.absent = draw(), .partial = draw()};
    if (view->second.absent > 0) {
      --view->second.absent;
      return std::nullopt;
    }
    if (view->second.partial > 0) {
      --view->second.partial;
      content->resize(random_() % content->size());
    }
    return content;
  }

  void refresh(const std::filesystem::path& directory) const override {
    std::erase_if(absent_,
                  [&](const std::string& file) { return std::filesystem::path(file).parent_path() == directory; });
  }

 private:
  struct View {
    int absent = 0;  ///< the number of looks that do not show the file yet
    int partial = 0;  ///< and then the number of looks that show a part of it
  };

  Server& server_;
  int most_looks_;
  mutable std::mt19937_64 random_;
  mutable std::map<std::string, View> views_;
  mutable std::set<std::string> absent_;  ///< what this host believes does not exist
};

control::Deadline after(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

rendezvous::FileStore store_on(std::shared_ptr<Host> host, int rank) {
  return {"/shared", "mine", rank, std::move(host)};
}

}  // namespace

TEST_CASE("ranks on hosts that see files late find each other's values") {
  const auto seed = GENERATE(range(0U, 6U));
  CAPTURE(seed);
  constexpr int ranks = 6;
  Server server;
  const auto exchange = [&](int rank) {
    const auto host = std::make_shared<Host>(server, 3, 100 * seed + static_cast<unsigned>(rank));
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
  Server server;
  rendezvous::FileStore healthy = store_on(std::make_shared<Host>(server, 0, 1), 0);
  healthy.put("a", "a value");
  healthy.poison("no GPU here");
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const rendezvous::FileStore late = store_on(std::make_shared<Host>(server, 6, seed), 1);
    CHECK_THROWS_AS(late.wait("missing", after(std::chrono::minutes(5))), rendezvous::StorePoisoned);
  }
}

TEST_CASE("a second writer is refused, also before its host sees the first value") {
  Server server;
  store_on(std::make_shared<Host>(server, 0, 1), 2).put("id", "first");
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    CHECK_THROWS_MATCHES(store_on(std::make_shared<Host>(server, 2, seed), 5).put("id", "second"),
                         rendezvous::KeyExists,
                         MessageMatches(ContainsSubstring("which rank 2 has written already") ||
                                        ContainsSubstring("which a rank that this host does not see yet has written")));
  }
}

TEST_CASE("a value that stays torn is an error at the deadline") {
  Server server;
  REQUIRE(server.add("/shared/values/key.id", "not a value, but 32 bytes and more of text"));
  const rendezvous::FileStore store = store_on(std::make_shared<Host>(server, 0, 1), 0);
  CHECK_THROWS_MATCHES(store.wait("id", after(std::chrono::milliseconds(20))), rendezvous::TornValue,
                       MessageMatches(ContainsSubstring("/shared/values/key.id: not a value of this store")));
}
