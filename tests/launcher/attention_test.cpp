// Looking at ranks while they run: what they print, line by line, and a debugger for one of them.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "launcher/terminal/log_tail.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The number after `words` in a text, or 0 if the text has no such number yet.
pid_t number_after(const std::string& text, const std::string& words) {
  const auto at = text.find(words);
  return at == std::string::npos ? 0 : static_cast<pid_t>(std::atoi(text.c_str() + at + words.size()));
}

}  // namespace

TEST_CASE("a log tail shows each line once, whole, with its rank, and the unfinished last line at the end") {
  TemporaryDirectory directory;
  const protocol::WorldDirectory world{directory.path()};
  std::filesystem::create_directories(world.logs());
  const auto append = [](const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file, std::ios::app) << text;
  };
  LogTail tail(world, {1, 0, 7}, 2, false, false);
  CHECK(tail.more(false).empty());
  append(world.standard_error(0), "one\ntw");
  append(world.standard_output(1), "\nthree\n");
  CHECK(tail.more(false) == "[rank 1] \n[rank 1] three\n[rank 0] one\n");
  CHECK(tail.more(false).empty());
  append(world.standard_error(0), "o\n");
  append(world.standard_error(1), "the last");
  CHECK(tail.more(false) == "[rank 0] two\n");
  CHECK(tail.more(true) == "[rank 1] the last\n");
  CHECK(tail.more(true).empty());

  LogTail shared(world, {1}, 2, true, false);
  CHECK(shared.more(true) == "[all ranks] one\n[all ranks] two\n");
  const std::string number = directory.path().filename().string();
  CHECK(LogTail(world, {1}, 2, false, true).more(true) == "[world " + number + ", rank 1] \n[world " + number +
                                                              ", rank 1] three\n[world " + number +
                                                              ", rank 1] the last\n");
}

TEST_CASE("a log tail shows text that would hide or forge lines as text, and follows no link") {
  TemporaryDirectory directory;
  const protocol::WorldDirectory world{directory.path()};
  std::filesystem::create_directories(world.logs());
  write_text(world.standard_error(0), "a\x1b[2K\r[rank 1] b\u0085\u202e\xff\n");
  LogTail tail(world, {0}, 1, false, false);
  CHECK(tail.more(true) == "[rank 0] a\\x1b[2K\\x0d[rank 1] b\\u{85}\\u{202e}\\xff\n");
  write_text(directory / "secret", "a secret\n");
  std::filesystem::create_symlink(directory / "secret", world.standard_output(0));
  CHECK(tail.more(true).empty());
}

TEST_CASE("a log tail does not wait for a pipe in place of a log, and shows what it read") {
  TemporaryDirectory directory;
  const protocol::WorldDirectory world{directory.path()};
  std::filesystem::create_directories(world.logs());
  write_text(world.standard_error(0), "one\ntw");
  LogTail tail(world, {0}, 1, false, false);
  CHECK(tail.more(false) == "[rank 0] one\n");
  std::filesystem::remove(world.standard_error(0));
  REQUIRE(mkfifo(world.standard_error(0).c_str(), 0600) == 0);
  CHECK(tail.more(false).empty());
  CHECK(tail.more(true) == "[rank 0] tw\n");
}

TEST_CASE("the output of chosen ranks is shown, and of no other") {
  TemporaryDirectory directory;
  const auto run = [&](const char* out, const char* ranks) {
    return call({"run", "loud/forks", "--worker", trouble_program().string(), "--output", ranks, "--out",
                 (directory / out).string()});
  };
  Said said = run("both", "0,1");
  CHECK_THAT(said.out, ContainsSubstring("[rank 0] child ") && ContainsSubstring("[rank 1] child "));
  said = run("one", "1");
  CHECK_THAT(said.out, !ContainsSubstring("[rank 0]") && ContainsSubstring("[rank 1] child "));
  said = run("none", "x");
  CHECK(said.end == code(2));
  CHECK(said.err == "shardproof: --output x: ranks from 0 to 1023; several are given as 0,2\n");
  said = run("none", "1,2");
  CHECK(said.end == code(2));
  CHECK(said.err == "shardproof: --output 2: no selected case has that rank\n");
}

TEST_CASE("a rank waits for a debugger, stops in it before its first case, and is not late") {
  TemporaryDirectory directory;
  bool is_forbidden = false;
  Setting setting;
  setting.meanwhile = [&](Process&, const std::function<std::string()>& said) {
    REQUIRE(eventually([&] { return number_after(said(), "rank 1 is in process ") != 0; }));
    const pid_t rank = number_after(said(), "rank 1 is in process ");
    CHECK_FALSE(std::filesystem::exists(directory / "run/report.json"));
    if (::ptrace(PTRACE_ATTACH, rank, nullptr, nullptr) != 0) {
      is_forbidden = errno == EPERM;
      ::kill(rank, SIGKILL);
      return;
    }
    // The attachment stops the rank, and the rank stops itself when it sees that it is traced; either may come first. A
    // rank that has not begun its program stops there too, by a SIGTRAP of the kernel.
    std::set<int> expected{SIGTRAP, SIGSTOP};
    while (!expected.empty()) {
      int status = 0;
      siginfo_t stop{};
      REQUIRE(::waitpid(rank, &status, __WALL) == rank);
      REQUIRE(WIFSTOPPED(status));
      REQUIRE(::ptrace(PTRACE_GETSIGINFO, rank, nullptr, &stop) == 0);
      if (WSTOPSIG(status) != SIGTRAP || stop.si_code == SI_TKILL) REQUIRE(expected.erase(WSTOPSIG(status)) == 1);
      ::ptrace(expected.empty() ? PTRACE_DETACH : PTRACE_CONT, rank, nullptr, nullptr);
    }
  };
  const Said said = call({"run", "good/stays", "--debug", "1", "--worker", trouble_program().string(), "--out",
                          (directory / "run").string()},
                         setting);
  if (is_forbidden) SKIP("nobody may look at processes here");
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("waiting for a debugger before its first case: gdb -p "));

  const Said refused = call({"run", "good/stays", "--debug", "2", "--worker", trouble_program().string()});
  CHECK(refused.end == code(2));
  CHECK(refused.err == "shardproof: --debug 2: no selected case has that rank\n");
}

TEST_CASE("doctor says of everything whether it is fine, and ends well where runs are possible") {
  const Said said = call({"doctor"});
  CHECK(said.end == code(0));
  for (const char* what : {"kernel: Linux", "cores: ", "memory file system: ", "output: ", "open files: ",
                           "stacks of ranks that hang: ", "GPU"})
    CHECK_THAT(said.out, ContainsSubstring(what));
  CHECK(call({"doctor", "x"}).err == "shardproof: unexpected argument 'x': shardproof doctor\n");
}

TEST_CASE("a wrapper starts the ranks that the user names, each in its own environment") {
  TemporaryDirectory directory;
  const auto run = [&](const std::string& wrapper, const std::vector<std::string>& more) {
    std::vector<std::string> words{"run",
                                   "good/stays",
                                   "--rank-wrapper",
                                   wrapper,
                                   "--worker",
                                   trouble_program().string(),
                                   "--out",
                                   (directory / "run").string(),
                                   "--overwrite"};
    words.insert(words.end(), more.begin(), more.end());
    return call(words);
  };
  const std::filesystem::path notes = directory / "it's a note";
  const std::string noting =
      "sh -c 'echo \"$SHARDPROOF_RANK\" >>\"$1\"; shift; exec \"$@\"' sh \"" + notes.string() + "\"";
  CHECK(run(noting, {"--wrap-ranks", "1"}).end == code(0));
  CHECK(text_of(notes) == "1\n");
  CHECK(run(noting, {}).end == code(0));
  CHECK(text_of(notes).size() == std::string_view("1\n0\n1\n").size());

  // The rank is a thread of the process that the command starts.
  std::filesystem::remove(notes);
  CHECK(run(noting, {"--wrap-ranks", "1", "--fabric", "thread"}).end == code(0));
  CHECK(text_of(notes) == "all\n");

  // A profiler stays the parent of the rank.
  const Said under_parent = run("timeout 60", {});
  INFO(under_parent.out << under_parent.err);
  CHECK(under_parent.end == code(0));
}

TEST_CASE("a rank that ends before its first case is to blame, whatever its exit code") {
  TemporaryDirectory directory;
  for (const int exit_code : {1, 4}) {
    const Said said = call({"run", "good/meets", "--ranks", "2", "--worker", trouble_program().string(), "--wrap-ranks",
                            "1", "--rank-wrapper", "sh -c 'exit " + std::to_string(exit_code) + "'", "--out",
                            (directory / "run").string(), "--overwrite"});
    INFO(said.out << said.err);
    CHECK(said.end == code(3));
    CHECK_THAT(said.err, ContainsSubstring("rank 1 ended with exit code " + std::to_string(exit_code) +
                                           " before its first case"));
  }
}

TEST_CASE("a wrapper that cannot be used is named") {
  TemporaryDirectory directory;
  const auto run = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words{
        "run", "good/stays", "--worker", trouble_program().string(), "--out", (directory / "run").string()};
    words.insert(words.end(), options.begin(), options.end());
    return call(words);
  };
  const Said missing = run({"--rank-wrapper", "no-such-profiler -o out"});
  CHECK(missing.end == code(3));
  CHECK_THAT(missing.err, ContainsSubstring("no-such-profiler") && ContainsSubstring("exit code 127"));
  CHECK(run({"--rank-wrapper", "  "}).err == "shardproof: --rank-wrapper: the command is empty\n");
  CHECK(run({"--rank-wrapper", "env", "--wrap-ranks", "2"}).err ==
        "shardproof: --wrap-ranks 2: no selected case has that rank\n");
  const Said alone = run({"--wrap-ranks", "1"});
  CHECK(alone.end == code(2));
  CHECK_THAT(alone.err, ContainsSubstring("--wrap-ranks without --rank-wrapper"));
}
