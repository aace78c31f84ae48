// Ranks whose evidence is not what their launcher may believe.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/launcher/trouble/trouble.hpp"

namespace {

/// The rank's own stream, of the world that it is in.
std::filesystem::path stream_of(const shardproof::Rank& rank) {
  const std::filesystem::path world = std::filesystem::path(getenv("SHARDPROOF_PLAN")).parent_path();
  return world / "ranks" / ("rank-" + std::to_string(rank.index()) + ".jsonl");
}

/// The file that a handler at the end of the program writes.
std::filesystem::path file_at_the_end;

}  // namespace

/// The text that is written after the cut follows half a line.
RANKED_TEST_CASE("lies/cuts_its_stream", ranks(2)) {
  trouble::meet(rank);
  if (rank.index() == 1) {
    const auto file = stream_of(rank);
    CHECK(::truncate(file.c_str(), static_cast<off_t>(std::filesystem::file_size(file)) - 9) == 0);
  }
  CHECK(true);
}

RANKED_TEST_CASE("lies/removes_its_stream", ranks(2)) {
  trouble::meet(rank);
  if (rank.index() == 1) std::filesystem::remove(stream_of(rank));
  CHECK(true);
}

/// The same, and leaves a child.
RANKED_TEST_CASE("lies/removes_its_world", ranks(2)) {
  trouble::meet(rank);
  if (rank.index() == 1) {
    CHECK(trouble::leave_a_child() > 0);
    std::filesystem::remove_all(std::filesystem::path(getenv("SHARDPROOF_PLAN")).parent_path());
  }
  CHECK(true);
}

/// A stream of another world, as an older run would have left it.
RANKED_TEST_CASE("lies/has_an_old_stream", ranks(2)) {
  trouble::meet(rank);
  if (rank.index() == 1) {
    const auto file = stream_of(rank);
    std::ifstream in(file);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto nonce = text.find("\"nonce\":\"") + 9;
    text[nonce] = text[nonce] == '0' ? '1' : '0';
    std::ofstream(file) << text;
  }
  CHECK(true);
}

RANKED_TEST_CASE("lies/writes_after_its_end", ranks(2)) {
  trouble::meet(rank);
  if (rank.index() == 1) {
    file_at_the_end = stream_of(rank);
    ::atexit([] { std::ofstream(file_at_the_end, std::ios::app) << "{\"event\":\"case_ended\"}\n"; });
  }
  CHECK(true);
}

/// A failure that its stream tells, and an exit code that does not.
RANKED_TEST_CASE("lies/fails_and_exits_well", ranks(2)) {
  CHECK(rank.index() == 0);
  trouble::meet(rank);
}
