#include "harness/rendezvous/file_store.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include "harness/rendezvous/value_file.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "shardproof-store-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  rendezvous::FileStore store(int rank, const char* nonce = "mine") const {
    return {std::filesystem::path(path_) / "store", nonce, rank};
  }
  std::filesystem::path value_file(const std::string& name) const {
    return std::filesystem::path(path_) / "store" / "values" / name;
  }
  std::filesystem::path unfinished() const { return std::filesystem::path(path_) / "store" / "unfinished"; }

 private:
  std::string path_;
};

control::Deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }
control::Deadline far() { return in(std::chrono::minutes(5)); }

std::string content_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void overwrite(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
}

}  // namespace

TEST_CASE("any bytes come back as they were put, under any key") {
  const Scratch scratch;
  rendezvous::FileStore store = scratch.store(0);
  std::string all_bytes;
  for (int c = 0; c < 256; ++c) all_bytes += static_cast<char>(c);
  const std::vector<std::pair<std::string, std::string>> pairs{{"empty", ""},
                                                               {"bytes", all_bytes},
                                                               {"long", std::string(100'000, 'x')},
                                                               {"", "of the empty key"},
                                                               {"ranks/3", "slash"},
                                                               {"..", "dots"},
                                                               {"%2F", "percent"},
                                                               {"/", "only a slash"},
                                                               {std::string("a\0b", 3), "a zero"},
                                                               {"poison", "no poison"},
                                                               {"Ähre", "beyond ASCII"}};
  for (const auto& [key, value] : pairs) store.put(key, value);
  for (const auto& [key, value] : pairs) {
    CHECK(scratch.store(1).get(key) == value);
    CHECK(scratch.store(1).wait(key, control::Deadline{}) == value);
  }
  CHECK_FALSE(store.get("absent"));
  CHECK(std::filesystem::is_empty(scratch.unfinished()));
  CHECK_THROWS_AS(store.put(std::string(300, 'k'), ""), std::invalid_argument);
}

TEST_CASE("a second writer gets an error that names the first, whose value stays") {
  const Scratch scratch;
  scratch.store(2).put("ranks/0", "first");
  CHECK_THROWS_MATCHES(
      scratch.store(5).put("ranks/0", "second"), rendezvous::KeyExists,
      MessageMatches(ContainsSubstring("rank 5 writes key \"ranks/0\", which rank 2 has written already")));
  CHECK(scratch.store(0).get("ranks/0") == "first");
  CHECK(std::filesystem::is_empty(scratch.unfinished()));
}

TEST_CASE("prefixes keep keys apart and add up") {
  const Scratch scratch;
  rendezvous::FileStore store = scratch.store(0);
  rendezvous::FileStore a = store.with_prefix("a/"), ab = a.with_prefix("b/");
  store.put("x", "1");
  a.put("x", "2");
  ab.put("x", "3");
  CHECK(store.get("x") == "1");
  CHECK(store.get("a/x") == "2");
  CHECK(store.get("a/b/x") == "3");
  CHECK_THROWS_MATCHES(ab.put("x", ""), rendezvous::KeyExists, MessageMatches(ContainsSubstring("\"a/b/x\"")));
}

TEST_CASE("a value of another world is an error and not an answer") {
  const Scratch scratch;
  scratch.store(0, "yesterday").put("id", "old");
  CHECK_THROWS_MATCHES(scratch.store(1).get("id"), std::runtime_error,
                       MessageMatches(ContainsSubstring("stale: it belongs to the world \"yesterday\"")));
  CHECK_THROWS_MATCHES(scratch.store(1).wait("id", far()), std::runtime_error,
                       MessageMatches(ContainsSubstring("key.id")));
}

TEST_CASE("the store distinguishes torn and corrupt values from whole values") {
  const Scratch scratch;
  rendezvous::FileStore store = scratch.store(0);
  store.put("key", "some value");
  const auto file = scratch.value_file("key.key");
  const std::string whole = content_of(file);
  REQUIRE(rendezvous::decode(whole, "mine").bytes == "some value");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    overwrite(file, whole.substr(0, length));
    CHECK_THROWS_AS(store.get("key"), std::runtime_error);
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    overwrite(file, changed);
    CHECK_THROWS_AS(store.get("key"), std::runtime_error);
  }
  overwrite(file, whole + "x");
  CHECK_THROWS_MATCHES(store.get("key"), std::runtime_error, MessageMatches(ContainsSubstring("torn")));
  overwrite(file, whole);
  CHECK(store.get("key") == "some value");
}

TEST_CASE("unfinished files of a killed writer disturb no other writer") {
  const Scratch scratch;
  rendezvous::FileStore store = scratch.store(0);
  for (int counter = 0; counter < 3; ++counter)
    overwrite(scratch.unfinished() / fmt::format("{}-0-{}", ::getpid(), counter), "half a val");
  store.put("key", "value");
  CHECK(store.get("key") == "value");
}

TEST_CASE("a wait returns values in the order asked for, whenever they come") {
  const Scratch scratch;
  const std::size_t many = GENERATE(1U, 5U, 40U);  // the last waits by looking, the others by being told
  std::vector<std::string> keys, expected;
  for (std::size_t i = 0; i < many; ++i) {
    keys.push_back(fmt::format("key {}", i));
    expected.push_back(fmt::format("value {}", i));
  }
  std::thread writer([&] {
    rendezvous::FileStore store = scratch.store(1);
    for (std::size_t i = many; i-- > 0;) store.put(keys[i], expected[i]);
  });
  CHECK(scratch.store(0).wait(keys, far()) == expected);
  writer.join();
  CHECK(scratch.store(0).wait(std::vector<std::string>{}, control::Deadline{}).empty());
}

TEST_CASE("the deadline names the missing keys, and some of them when they are many") {
  const Scratch scratch;
  rendezvous::FileStore store = scratch.store(4).with_prefix("ranks/");
  store.put("1", "");
  const std::vector<std::string> keys{"0", "1", "2"};
  CHECK_THROWS_MATCHES(store.wait(keys, in(std::chrono::milliseconds(3))), control::DeadlineExceeded,
                       MessageMatches(ContainsSubstring("rank 4: file store") &&
                                      ContainsSubstring("no rank wrote \"ranks/0\" \"ranks/2\" before")));
  CHECK_THROWS_AS(store.wait("0", control::Deadline{}), control::DeadlineExceeded);
  std::vector<std::string> many;
  for (int i = 10; i < 40; ++i) many.push_back(std::to_string(i));
  CHECK_THROWS_MATCHES(store.wait(many, control::Deadline{}), control::DeadlineExceeded,
                       MessageMatches(ContainsSubstring("\"ranks/17\" and 22 more before")));
}

TEST_CASE("poison ends every wait, also of values that are there, and its first reason stays") {
  const Scratch scratch;
  std::string text;
  std::thread waiting([&] {
    try {
      scratch.store(0).with_prefix("any/").wait("never", far());
    } catch (const rendezvous::StorePoisoned& poisoned) {
      text = fmt::format("{} by {}", poisoned.what(), poisoned.rank());
    }
  });
  rendezvous::FileStore store = scratch.store(3);
  store.put("there", "1");
  store.poison("no memory");
  scratch.store(2).poison("a later reason");
  waiting.join();
  CHECK(text == "file store poisoned by rank 3: no memory by 3");
  CHECK_THROWS_AS(store.wait("there", far()), rendezvous::StorePoisoned);
  CHECK(store.get("there") == "1");
}

TEST_CASE("of writers that race for a key exactly one wins, and the others name it") {
  const Scratch scratch;
  constexpr int writers = 8;
  for (int round = 0; round < 30; ++round) {
    const std::string key = fmt::format("round {}", round);
    std::array<std::string, writers> lost;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < writers; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          scratch.store(rank).put(key, std::to_string(rank));
        } catch (const rendezvous::KeyExists& exists) {
          lost[static_cast<std::size_t>(rank)] = exists.what();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    const int winner = std::stoi(scratch.store(0).get(key).value());
    for (int rank = 0; rank < writers; ++rank) {
      const std::string expected =
          fmt::format("rank {} writes key \"{}\", which rank {} has written already", rank, key, winner);
      CHECK((rank == winner ? lost[static_cast<std::size_t>(rank)].empty()
                            : lost[static_cast<std::size_t>(rank)].ends_with(expected)));
    }
  }
}

TEST_CASE("64 processes meet") {
  const Scratch scratch;
  constexpr int ranks = 64;
  std::vector<std::string> keys;
  for (int rank = 0; rank < ranks; ++rank) keys.push_back(fmt::format("ranks/{}", rank));
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::alarm(100);
      int wrong = 0;
      try {
        rendezvous::FileStore store = scratch.store(rank);
        store.put(keys[static_cast<std::size_t>(rank)], std::to_string(rank * rank));
        const auto values = store.wait(keys, far());
        for (int other = 0; other < ranks; ++other)
          wrong += values[static_cast<std::size_t>(other)] != std::to_string(other * other);
        try {
          store.put("leader", std::to_string(rank));
        } catch (const rendezvous::KeyExists&) {
          wrong += store.wait("leader", far()) == std::to_string(rank);
        }
      } catch (const std::exception&) {
        wrong = 100;
      }
      ::_exit(wrong);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(std::filesystem::is_empty(scratch.unfinished()));
}

TEST_CASE("file names keep keys readable and apart") {
  CHECK(rendezvous::percent_encode("fabric/world-1_a.b") == "fabric%2Fworld-1_a.b");
  CHECK(rendezvous::percent_encode(std::string("\0%\xff", 3)) == "%00%25%FF");
}
