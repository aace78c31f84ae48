// The memory in which ranks meet is full, or fills up during a run. That is not the engine's fault: the world is tried
// again with its memory on the disk.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// A run with a /dev/shm of its own. `mounted`: more commands before the launcher.
Setting with_memory(const std::string& words, const std::string& mounted = "") {
  if (std::system("/usr/bin/unshare --map-root-user --mount true 2>/dev/null") != 0)
    SKIP("no mounts in a namespace of one's own here");
  Setting setting;
  setting.wrapper = {"/usr/bin/unshare", "--map-root-user", "--mount"};
  setting.prelude = "mount -t tmpfs -o " + words + " none /dev/shm && " + mounted;
  setting.environment = {"FILL=/dev/shm/filler"};
  return setting;
}

}  // namespace

TEST_CASE("a world whose memory fills up during a run goes on on the disk, from the case in which this happened") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  const Said said =
      run_trouble(run, {"good", "loud/fills_shared_memory", "many", "--ranks", "2"}, with_memory("size=40m"));
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  for (const auto& [id, verdict] : verdicts(run)) CHECK(id + " " + verdict == id + " passed");
  CHECK(verdicts(run).size() == 13);
  CHECK(report_of(run).at("worlds").size() == 2);
  CHECK_THAT(unwrapped(said.out), ContainsSubstring("world 0: rank 0 has no room for shared memory: ") &&
                                      ContainsSubstring(". Trying again with its shared memory in ") &&
                                      ContainsSubstring("/run/worlds/0\n"));
  for (const auto& entry : std::filesystem::directory_iterator(run / "worlds/1"))
    CHECK_THAT(entry.path().filename().string(), !StartsWith("shardproof-"));

  const nlohmann::json report = report_of(run);
  CHECK(call({"merge", run.string()}).end == code(0));
  CHECK(report_of(run) == report);
}

TEST_CASE("a memory file system without room for files is full, too") {
  // 1: not even for a directory; 4: for a part of the launcher's files; 9: for a part of the ranks' files.
  for (const std::string files : {"1", "4", "9"}) {
    TemporaryDirectory directory;
    const auto run = directory / "run";
    const Said said = run_trouble(run, {"good/meets[W=2]", "many"}, with_memory("size=40m,nr_inodes=" + files));
    INFO(files << "\n" << said.out << said.err);
    CHECK(said.end == code(0));
    CHECK_THAT(unwrapped(said.out), ContainsSubstring(". Trying again with its shared memory in "));
    CHECK(call({"merge", run.string()}).end == code(0));
  }
}

TEST_CASE("a run ends with 3 where the disk has no room for shared memory either") {
  TemporaryDirectory directory;
  const auto run = directory / "run";
  const Said said =
      run_trouble(run, {"good/stays", "loud/fills_shared_memory", "many"},
                  with_memory("size=40m", "mount -t tmpfs -o size=300k none " + directory.path().string() + " && "));
  INFO(said.out << said.err);
  CHECK(said.end == code(3));
  CHECK_THAT(unwrapped(said.err), ContainsSubstring("has no room for shared memory"));
  CHECK_THAT(said.out, ContainsSubstring("11 passed, 1 not_run") && !ContainsSubstring("EVIDENCE"));
}
