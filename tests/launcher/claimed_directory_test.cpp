// Which directory a command writes into, which earlier one it may replace, and where the link to the latest run leads.
#include "launcher/files/claimed_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "launcher/files/earlier_run.hpp"
#include "launcher/files/own_files.hpp"
#include "launcher/launcher.hpp"
#include "tests/launcher/refusal.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
namespace fs = std::filesystem;

namespace {

/// The process's own, for as long as this lives.
class WorkingDirectory {
 public:
  explicit WorkingDirectory(const fs::path& directory) : before_(fs::current_path()) { fs::current_path(directory); }
  ~WorkingDirectory() { fs::current_path(before_); }

 private:
  fs::path before_;
};

/// The home directory of this process, for as long as this lives.
class HomeDirectory {
 public:
  explicit HomeDirectory(const fs::path& directory) {
    if (const char* const before = std::getenv("HOME")) before_ = before;
    ::setenv("HOME", directory.c_str(), 1);
  }
  ~HomeDirectory() {
    if (before_) ::setenv("HOME", before_->c_str(), 1);
    else ::unsetenv("HOME");
  }

 private:
  std::optional<std::string> before_;
};

protocol::RunDirectory claim(const fs::path& directory) { return ClaimedDirectory({.directory = directory}).run(); }
protocol::RunDirectory replace(const fs::path& directory) {
  return ClaimedDirectory({.directory = directory, .overwrite = true}).run();
}
std::string refused(const fs::path& directory) {
  return refusal([&] { replace(directory); });
}

/// Every path below the directory, relative to it.
std::set<std::string> contents(const fs::path& directory) {
  std::set<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    paths.insert(entry.path().lexically_relative(directory).string());
  return paths;
}

const std::vector<std::string> files_of_a_run{"run.json",
                                              "plan.json",
                                              "report.json.new",
                                              "warm.log",
                                              "cache/any/name at all",
                                              "worlds/0/plan.json",
                                              "worlds/0/shardproof-Ab3Xyz/store/any name",
                                              "worlds/0/ranks/rank-0.jsonl",
                                              "worlds/0/logs/rank-10.err",
                                              "worlds/0/evidence/rank-1.stacks",
                                              "worlds/0/evidence/a.b[W=2].play-2.scenario.json",
                                              "worlds/0/traces/a.b[W=2].trace.json",
                                              "worlds/0/nccl/rank-0.tap.4711",
                                              "worlds/12/play/a.b[W=2]/rank-0.json"};

void write_files(const fs::path& directory, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    fs::create_directories((directory / file).parent_path());
    write_text(directory / file, "text of " + file);
  }
}

/// A run that ended, in a directory of its own.
fs::path make_run(const fs::path& directory) {
  claim(directory);
  write_files(directory, files_of_a_run);
  return directory;
}

}  // namespace

TEST_CASE("without a name, a run gets a new directory and the link to the latest") {
  TemporaryDirectory directory;
  const WorkingDirectory here(directory.path());
  const protocol::RunDirectory first = ClaimedDirectory({}).run();
  CHECK_FALSE(point_latest_to(first));
  const protocol::RunDirectory second = ClaimedDirectory({}).run();
  CHECK(first.root != second.root);
  CHECK_FALSE(point_latest_to(second));
  CHECK(fs::canonical("shardproof-out/latest") == fs::canonical(second.root));
  CHECK(fs::read_symlink("shardproof-out/latest") == second.root.filename());
}

TEST_CASE("the link leads to a run in any other directory, too, where its folder exists") {
  TemporaryDirectory directory;
  const WorkingDirectory here(directory.path());
  const protocol::RunDirectory elsewhere = claim("elsewhere");
  CHECK_FALSE(point_latest_to(elsewhere));
  CHECK(contents(".") == std::set<std::string>{"elsewhere", "elsewhere/.shardproof-output"});

  fs::create_directory("shardproof-out");
  CHECK_FALSE(point_latest_to(elsewhere));
  CHECK(fs::canonical("shardproof-out/latest") == fs::canonical("elsewhere"));
  CHECK_FALSE(point_latest_to(claim("shardproof-out/named/deep")));
  CHECK(fs::read_symlink("shardproof-out/latest") == "named/deep");
  CHECK_FALSE(point_latest_to(ClaimedDirectory({}).run()));
  CHECK(fs::canonical("shardproof-out/latest") != fs::canonical("elsewhere"));

  // The folder may be a link itself, and may be the run.
  fs::remove_all("shardproof-out");
  fs::create_directories("far/away");
  fs::create_directory_symlink("far/away", "shardproof-out");
  CHECK_FALSE(point_latest_to(elsewhere));
  CHECK(fs::canonical("shardproof-out/latest") == fs::canonical("elsewhere"));
  fs::remove("far/away/latest");
  CHECK_FALSE(point_latest_to(claim("far/away")));
  CHECK(contents("far/away") == std::set<std::string>{".shardproof-output"});
}

TEST_CASE("a link that a killed launcher left is removed, and a new one is another launcher's") {
  TemporaryDirectory directory;
  const WorkingDirectory here(directory.path());
  const protocol::RunDirectory run = ClaimedDirectory({}).run();
  for (const char* name : {".latest-1-1", ".latest-1-2"})
    fs::create_symlink(run.root, fs::path("shardproof-out") / name);
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  REQUIRE(::utimensat(AT_FDCWD, "shardproof-out/.latest-1-1", times, AT_SYMLINK_NOFOLLOW) == 0);
  CHECK_FALSE(point_latest_to(run));
  CHECK_FALSE(fs::is_symlink("shardproof-out/.latest-1-1"));
  CHECK(fs::is_symlink("shardproof-out/.latest-1-2"));
}

TEST_CASE("a run is locked by one command at a time, with a marker or without") {
  TemporaryDirectory directory;
  for (const bool has_marker : {true, false}) {
    const fs::path run = make_run(directory / (has_marker ? "marked" : "foreign"));
    if (!has_marker) fs::remove(run / marker_name);
    const std::set<std::string> before = contents(run);
    {
      const base::FileDescriptor lock = lock_run(run);
      CHECK_THAT(refusal([&] { lock_run(run); }),
                 EndsWith(run.string() + ": another shardproof command is writing to it: wait for its end"));
    }
    lock_run(run);
    CHECK(contents(run) == before);
  }
  lock_run(directory / "nowhere");
}

TEST_CASE("a file in the place of the link stays, and no other file is left") {
  for (const char* precious : {"shardproof-out/latest", "shardproof-out/latest/precious"}) {
    TemporaryDirectory directory;
    const WorkingDirectory here(directory.path());
    fs::create_directories(fs::path(precious).parent_path());
    write_text(precious, "text");
    const auto obstacle = point_latest_to(ClaimedDirectory({}).run());
    REQUIRE(obstacle);
    CHECK_THAT(*obstacle,
               EndsWith("shardproof-out/latest does not point to this run: it is not a symbolic link; move it away"));
    CHECK(text_of(precious) == "text");
    const fs::directory_iterator entries("shardproof-out");
    CHECK(std::distance(begin(entries), end(entries)) == 2);
  }
}

TEST_CASE("runs that begin at once leave one link, and it leads to one of them at any time") {
  TemporaryDirectory directory;
  const WorkingDirectory here(directory.path());
  std::vector<protocol::RunDirectory> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(ClaimedDirectory({}).run());
  CHECK_FALSE(point_latest_to(runs.front()));
  std::atomic<int> obstacles = 0, gaps = 0;
  std::vector<std::thread> rivals;
  for (const protocol::RunDirectory& run : runs) {
    rivals.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        obstacles += point_latest_to(run) ? 1 : 0;
        gaps += fs::is_directory("shardproof-out/latest") ? 0 : 1;
      }
    });
  }
  for (std::thread& rival : rivals) rival.join();
  CHECK(obstacles == 0);
  CHECK(gaps == 0);
  const fs::directory_iterator entries("shardproof-out");
  CHECK(std::distance(begin(entries), end(entries)) == 5);
}

TEST_CASE("of several commands that ask for one directory at once, one gets it") {
  TemporaryDirectory directory;
  make_run(directory / "run");
  for (int round = 0; round < 75; ++round) {
    // A new directory, first without and then with --overwrite; in the last rounds, an earlier run.
    const OutputOptions wanted{.directory = directory / (round < 50 ? std::to_string(round) : "run"),
                               .overwrite = round >= 25};
    std::atomic<int> winners = 0, tries = 0;
    std::vector<std::thread> rivals;
    for (int i = 0; i < 4; ++i) {
      rivals.emplace_back([&] {
        try {
          const ClaimedDirectory claimed(wanted);
          ++winners;
          ++tries;
          while (tries < 4) std::this_thread::yield();
        } catch (const CommandError&) {
          ++tries;  // it was not this one
        }
      });
    }
    for (std::thread& rival : rivals) rival.join();
    CHECK(winners == 1);
  }
}

TEST_CASE("a named directory is made, or taken when it is empty, and nothing in it is overwritten") {
  TemporaryDirectory directory;
  CHECK(claim(directory / "a/b/c").root == directory / "a/b/c");
  fs::remove(directory / "a/b/c" / marker_name);
  CHECK(claim(directory / "a/b/c/").root == directory / "a/b/c");
  const auto again = [&] { return refusal([&] { claim(directory / "a/b/c"); }); };
  CHECK(again() == "output unusable: " + (directory / "a/b/c").string() +
                       ": it holds an earlier run: name another directory, or replace that run with --overwrite");
  write_text(directory / "a/b/c/precious", "text");
  CHECK_THAT(again(), ContainsSubstring("it holds an earlier run"));
  fs::remove(directory / "a/b/c" / marker_name);
  CHECK_THAT(again(), ContainsSubstring(
                          "a/b/c: it is not empty, and shardproof did not write it: name a new or an empty directory"));
  CHECK(contents(directory / "a/b/c") == std::set<std::string>{"precious"});
}

TEST_CASE("a path that cannot become a directory is unusable output") {
  TemporaryDirectory directory;
  write_text(directory / "file", "text");
  for (const bool overwrite : {false, true}) {
    const auto refused_for = [&](const fs::path& path) {
      return refusal([&] { ClaimedDirectory({.directory = path, .overwrite = overwrite}); });
    };
    CHECK_THAT(refused_for(directory / "file"),
               ContainsSubstring("output unusable") && ContainsSubstring("file: it is not a directory"));
    CHECK_THAT(refused_for(directory / "file/below"), ContainsSubstring("output unusable"));
    CHECK_THAT(refused_for("/proc/shardproof"), ContainsSubstring("output unusable"));
  }
  CHECK(text_of(directory / "file") == "text");
}

TEST_CASE("an earlier run is replaced, and its directory stays claimed meanwhile") {
  TemporaryDirectory directory;
  const fs::path run = make_run(directory / "run");
  CHECK(contents(run).size() > files_of_a_run.size());
  {
    const ClaimedDirectory claimed({.directory = run, .overwrite = true});
    CHECK(contents(run) == std::set<std::string>{marker_name});
    write_files(run, files_of_a_run);
    CHECK_THAT(
        refused(run),
        ContainsSubstring("another shardproof command is writing to it: wait for its end, or name another directory"));
    CHECK(text_of(run / "run.json") == "text of run.json");
  }
  CHECK(replace(run).root == run);
  CHECK(replace(directory / "new").root == directory / "new");
}

TEST_CASE("every file that run_directory.hpp names is shardproof's own, and so is its folder") {
  const protocol::RunDirectory run{};
  const protocol::WorldDirectory world = run.world(12);
  const std::string id = "a/b[W=2]";
  for (const fs::path& file : {run.report(),
                               run.run(),
                               run.plan(),
                               run.warm_log(),
                               world.plan(),
                               world.scenario(id, 1),
                               world.scenario(id, 2),
                               world.flight(),
                               world.turns(),
                               world.nccl_record(3),
                               world.play_result(id, 3),
                               world.rank_stream(3),
                               world.standard_output(3),
                               world.standard_error(3),
                               world.endings(),
                               world.guard_order(),
                               world.host_plan(3),
                               world.key(),
                               world.rank_end(3),
                               world.launcher_log()}) {
    INFO(file);
    CHECK(is_own_file(file.string()));
    CHECK((!file.has_parent_path() || is_own_folder(file.parent_path().string())));
  }
  for (const fs::path& folder : {run.worlds(), world.traces(), world.store()}) CHECK(is_own_folder(folder.string()));
  CHECK(is_of_others((world.store() / "values/key.fabric%2Fworld").string()));
}

TEST_CASE("shared memory that a killed launcher left on the disk is of its run") {
  CHECK(is_own_folder("worlds/3/shardproof-Ab3Xyz"));
  CHECK_FALSE(is_of_others("worlds/3/shardproof-Ab3Xyz"));
  CHECK(is_of_others("worlds/3/shardproof-Ab3Xyz/store/ranks"));
  CHECK_FALSE(is_of_others("worlds/3/shardproof-notes.txt/a"));
  CHECK_FALSE(is_of_others("shardproof-Ab3Xyz/a"));
}

TEST_CASE("a run of a version without markers is recognised by its head") {
  TemporaryDirectory directory;
  const fs::path run = make_run(directory / "run");
  fs::remove(run / marker_name);
  CHECK_THAT(refused(run), ContainsSubstring("shardproof did not write it"));
  write_text(
      run / "run.json",
      R"({"suite_version": "1", "profile": "", "machine": {}, "subject": {"name": "", "version": "", "fault": null},
      "run": {"id": "run", "started": "", "argv": [], "seed": 0, "repeat": 1, "partial": false, "git_commit": "",)"
      R"( "environment": {}}})");
  CHECK_THAT(refusal([&] { claim(run); }), ContainsSubstring("it holds an earlier run"));
  CHECK_FALSE(fs::exists(run / marker_name));
  CHECK(replace(run).root == run);
  CHECK(contents(run) == std::set<std::string>{marker_name});
}

TEST_CASE("a directory of several runs is replaced with them, unless one of them is in use") {
  TemporaryDirectory directory;
  const fs::path place = directory / "place";
  claim(place);
  write_files(place, {"1-a.warm.log", "explored.json", "differences/1/scenario.json"});
  for (const char* run : {"clean", "2-my.engine+a_fault"}) make_run(place / run);
  fs::create_directory(place / "not claimed yet");
  {
    const ClaimedDirectory inner({.directory = place / "clean", .overwrite = true});
    CHECK_THAT(refused(place), ContainsSubstring("place/clean: another shardproof command is writing to it"));
    CHECK(fs::exists(place / "2-my.engine+a_fault/run.json"));
  }
  write_files(place / "clean", files_of_a_run);
  CHECK(replace(place).root == place);
  CHECK(contents(place) == std::set<std::string>{marker_name});
}

TEST_CASE("a file that shardproof did not write prevents the replacement, and is named") {
  const std::vector<std::string> foreign{"notes.txt",
                                         "run.json.old",
                                         "worlds/0/notes.txt",
                                         "worlds/0/evidence/core",
                                         "worlds/mine/plan.json",
                                         "worlds/0/ranks/.x",
                                         "inner/worlds/0/a.txt",
                                         "mine/a.txt",
                                         ".hidden",
                                         "report.json/a"};
  for (const std::string& file : foreign) {
    TemporaryDirectory directory;
    const fs::path run = make_run(directory / "run");
    make_run(run / "inner");
    write_files(run, {file});
    const std::set<std::string> before = contents(run);
    INFO(file);
    CHECK_THAT(refused(run),
               ContainsSubstring("shardproof did not write " + run.string()) &&
                   EndsWith(", and --overwrite deletes no other file: move it away, or name another directory"));
    CHECK(contents(run) == before);
    CHECK(text_of(run / file) == "text of " + file);
  }
}

TEST_CASE("no link is followed, and other kinds of files stay") {
  TemporaryDirectory directory;
  const fs::path run = make_run(directory / "run"), precious = make_run(directory / "precious");
  fs::create_directory_symlink(run, directory / "link");
  for (const char* asked : {"link", "link/", "link/.", "link//./"})
    CHECK_THAT(refused(directory / asked),
               ContainsSubstring("link: it is a symbolic link, and --overwrite does not follow links"));
  for (const char* name : {"worlds/1", "plan.json", "worlds/0/ranks/rank-1.jsonl", "inner"}) {
    const fs::path place = run / name;
    fs::remove(place);
    fs::create_symlink(precious, place);
    CHECK_THAT(refused(run), ContainsSubstring("shardproof did not write " + place.string()));
    fs::remove(place);
    REQUIRE(::mkfifo(place.c_str(), 0600) == 0);
    CHECK_THAT(refused(run), ContainsSubstring("shardproof did not write " + place.string()));
    fs::remove(place);
  }
  // A marker that is a link marks nothing.
  fs::rename(run / marker_name, directory / "marker");
  fs::create_symlink(directory / "marker", run / marker_name);
  CHECK_THAT(refused(run), ContainsSubstring("shardproof did not write it"));
  fs::rename(directory / "marker", run / marker_name);
  // Threads share the logs of their process, and PyTorch may keep links among what it compiles. Links go, and what they
  // lead to stays.
  for (const char* link : {"cache/link", "worlds/0/logs/rank-7.out"}) fs::create_symlink(precious, run / link);
  CHECK(replace(run).root == run);
  CHECK(contents(precious).size() > files_of_a_run.size());
}

TEST_CASE("the root, the home and the current directory are not emptied, whatever is in them") {
  CHECK_THAT(refused("/"), ContainsSubstring("output unusable: /: "));
  TemporaryDirectory directory;
  const fs::path run = make_run(directory / "run");
  const std::set<std::string> before = contents(run);
  {
    const HomeDirectory home(run);
    CHECK_THAT(
        refused(run),
        ContainsSubstring("run: it is the home directory, and --overwrite would empty it: name another directory"));
  }
  for (const char* below : {"", "worlds/0"}) {
    const WorkingDirectory here(run / below);
    CHECK_THAT(refused(run), ContainsSubstring("run: the current directory is in it, and --overwrite would empty it"));
    CHECK_THAT(refused("."), ContainsSubstring("output unusable"));
  }
  CHECK(contents(run) == before);
  fs::create_directory(directory / "run2");
  const WorkingDirectory working_directory(directory / "run2");
  CHECK(replace("../run").root == run);
}

TEST_CASE("a replacement that was cut short at any point can be repeated") {
  for (std::size_t gone = 0;; ++gone) {
    TemporaryDirectory directory;
    const fs::path run = make_run(directory / "run");
    make_run(run / "inner");
    // Deletion goes on from the deepest files, and ends with the marker of an inner run.
    std::vector<std::string> order;
    for (const std::string& path : contents(run)) {
      if (!path.ends_with(marker_name)) order.push_back(path);
    }
    std::ranges::reverse(order);
    order.insert(std::ranges::find(order, "inner"), std::string("inner/") + marker_name);
    if (gone > order.size()) break;
    for (std::size_t i = 0; i < gone; ++i) CHECK(fs::remove(run / order[i]));
    CHECK(replace(run).root == run);
    CHECK(contents(run) == std::set<std::string>{marker_name});
  }
}

TEST_CASE("a file that its user put into the directory by an option is replaced with it") {
  TemporaryDirectory directory;
  const fs::path run = directory / "run";
  {
    ClaimedDirectory claimed({.directory = run});
    claimed.note_file("my trace.json");
    claimed.note_file("other");
    write_files(run, {"my trace.json", "other", "third"});
  }
  CHECK_THAT(refused(run), ContainsSubstring("shardproof did not write " + (run / "third").string()));
  fs::remove(run / "third");
  {
    const ClaimedDirectory claimed({.directory = run, .overwrite = true});
    write_files(run, {"other"});
  }
  CHECK_THAT(refused(run), ContainsSubstring("shardproof did not write " + (run / "other").string()));
}

TEST_CASE("a command does not replace a run that contains its input") {
  TemporaryDirectory directory;
  const fs::path run = make_run(directory / "run");
  const fs::path scenario = run / "worlds/0/evidence/a.b[W=2].play-2.scenario.json";
  fs::create_symlink(scenario, directory / "link");
  for (const fs::path& input : {scenario, directory / "link", run / "../run/plan.json"})
    CHECK_THAT(refusal([&] { require_not_replaced(input, {.directory = run, .overwrite = true}); }),
               ContainsSubstring(input.string() + " is in it, and --overwrite would delete this input"));
  require_not_replaced(scenario, {.directory = run});
  require_not_replaced(directory / "run2/plan.json", {.directory = run, .overwrite = true});
  require_not_replaced(scenario, {.directory = directory / "ru", .overwrite = true});
}
