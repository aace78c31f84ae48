// Children that end in every way there is, and some that will not end.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <chrono>
#include <limits>
#include <optional>
#include <system_error>

#include "launcher/process/leftovers.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"
#include "launcher/process/signal_watch.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

control::Deadline in(int seconds) { return std::chrono::steady_clock::now() + std::chrono::seconds(seconds); }

/// A shell script as a child, its output in files of a directory that lives as long as it.
class Script {
 public:
  explicit Script(const std::string& text, std::vector<std::string> environment = {}) {
    const base::FileDescriptor out(::open((directory_ / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const base::FileDescriptor err(::open((directory_ / "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    process_.emplace(Process::spawn({.program = "/bin/sh",
                                     .arguments = {"-c", text},
                                     .environment = std::move(environment),
                                     .standard_output = out.get(),
                                     .standard_error = err.get()}));
  }
  Process& process() { return *process_; }
  void drop() { process_.reset(); }
  std::string out() const { return text_of(directory_ / "out"); }
  std::string err() const { return text_of(directory_ / "err"); }

  /// Until the script has written a whole line: its trap and its children are in place then.
  std::string first_line() {
    const control::Deadline limit = in(20);
    for (;;) {
      const std::string text = out();
      if (text.find('\n') != std::string::npos) return text.substr(0, text.find('\n'));
      if (std::chrono::steady_clock::now() > limit) return "";
      process_->wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
    }
  }

 private:
  TemporaryDirectory directory_;
  std::optional<Process> process_;
};

/// True if the process is gone, or only waits for its parent to reap it.
bool is_dead(pid_t pid) {
  const std::string status = text_of("/proc/" + std::to_string(pid) + "/status");
  return status.empty() || status.find("State:\tZ") != std::string::npos;
}

/// SIGKILL has been sent; the kernel takes a moment.
bool dies(pid_t pid) {
  for (const control::Deadline limit = in(20); std::chrono::steady_clock::now() < limit;) {
    if (is_dead(pid)) return true;
    ::sched_yield();
  }
  return false;
}

}  // namespace

TEST_CASE("a process reports its exit code unchanged") {
  for (const int code : {0, 1, 3, 127, 255}) {
    Script script("exit " + std::to_string(code));
    CHECK(script.process().wait(in(20)) == Exit{.signalled = false, .code = code});
  }
}

TEST_CASE("a process reports the signal that killed it") {
  for (const int number : {SIGKILL, SIGTERM, SIGSEGV, SIGABRT, SIGHUP, SIGPIPE}) {
    Script script("kill -" + std::to_string(number) + " $$");
    CHECK(script.process().wait(in(20)) == Exit{.signalled = true, .code = number});
  }
  CHECK(describe({.signalled = true, .code = SIGKILL}) == "signal 9 (SIGKILL)");
  CHECK(describe({.signalled = false, .code = 3}) == "exit code 3");
}

TEST_CASE("an ending is remembered") {
  Script script("exit 5");
  REQUIRE(script.process().wait(in(20)));
  CHECK(script.process().collect() == Exit{.signalled = false, .code = 5});
  CHECK(script.process().wait(in(0)) == Exit{.signalled = false, .code = 5});
}

TEST_CASE("a wait ends at its deadline") {
  Script script("exec sleep 1000");
  CHECK_FALSE(script.process().wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  CHECK_FALSE(script.process().collect());
}

TEST_CASE("a child that ignores SIGTERM is killed") {
  Script script("trap '' TERM; echo ready; while :; do sleep 1000; done");
  REQUIRE(script.first_line() == "ready");
  ::kill(script.process().pid(), SIGTERM);
  script.process().signal_group(SIGKILL);
  CHECK(script.process().wait(in(20)) == Exit{.signalled = true, .code = SIGKILL});
}

TEST_CASE("the destructor of a process handle kills the process group") {
  Script script("sleep 1000 & echo $!; wait");
  const pid_t grandchild = std::stoi(script.first_line());
  const pid_t child = script.process().pid();
  script.drop();
  CHECK(dies(child));
  CHECK(dies(grandchild));
  CHECK(::waitpid(child, nullptr, WNOHANG) == -1);  // reaped: nobody's zombie
}

TEST_CASE("the processes in a child's group end with the child") {
  Script script("sleep 1000 & echo $!; exit 0");
  const pid_t grandchild = std::stoi(script.first_line());
  CHECK(script.process().wait(in(20)) == Exit{});
  CHECK(dies(grandchild));
}

TEST_CASE("a child has its own process group, and cannot signal ours") {
  Script script("exec sleep 1000");
  CHECK(::getpgid(script.process().pid()) == script.process().pid());
  CHECK(::getpgid(0) != script.process().pid());
}

TEST_CASE("output of any length blocks no process") {
  Script script("head -c 3000000 /dev/zero >&2; echo done");
  CHECK(script.process().wait(in(60)) == Exit{});
  CHECK(script.err().size() == 3'000'000);
  CHECK(script.out() == "done\n");
}

TEST_CASE("standard input is empty") {
  Script script("cat; echo end");
  CHECK(script.process().wait(in(20)) == Exit{});
  CHECK(script.out() == "end\n");
}

TEST_CASE("the environment is what was given and nothing else") {
  Script script("/usr/bin/env", {"ONE=1", "TWO=a b"});
  CHECK(script.process().wait(in(20)) == Exit{});
  CHECK_THAT(script.out(), ContainsSubstring("ONE=1\n") && ContainsSubstring("TWO=a b\n"));
  CHECK_THAT(script.out(), !ContainsSubstring("HOME="));
}

TEST_CASE("a child inherits no descriptor, not even an inheritable one") {
  const base::FileDescriptor inheritable(::open("/dev/null", O_RDONLY));
  REQUIRE(inheritable.get() > 2);
  Script script("[ -e /proc/self/fd/" + std::to_string(inheritable.get()) + " ] && echo open || echo closed");
  CHECK(script.process().wait(in(20)) == Exit{});
  CHECK(script.out() == "closed\n");
}

TEST_CASE("one descriptor of ours reaches a child that is to have it, as its third") {
  const TemporaryDirectory directory;
  write_text(directory / "text", "for you");
  const base::FileDescriptor given(::open((directory / "text").c_str(), O_RDONLY | O_CLOEXEC));
  const base::FileDescriptor out(::open((directory / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  Process child = Process::spawn(
      {.program = "/bin/sh",
       .arguments = {"-c",
                     "cat <&3; for n in 4 5 6 7 8 9; do [ -e /proc/self/fd/$n ] && echo \" and $n\"; done; exit 0"},
       .environment = {},
       .standard_output = out.get(),
       .standard_error = out.get(),
       .third = given.get()});
  CHECK(child.wait(in(20)) == Exit{});
  CHECK(text_of(directory / "out") == "for you");
}

TEST_CASE("a process can adopt a child that other code started, and no process that is not a child") {
  const pid_t started = ::fork();
  if (started == 0) {
    ::setpgid(0, 0);
    for (;;) ::pause();
  }
  ::setpgid(started, started);
  {
    Process child = Process::adopt(started);
    CHECK(child.pid() == started);
    CHECK_FALSE(child.collect());
    child.signal_group(SIGKILL);  // the child has this program's handlers for other signals
    CHECK(child.wait(in(20)) == Exit{.signalled = true, .code = SIGKILL});
  }
  for (const pid_t other : {started, ::getpid(), pid_t{1}, pid_t{0}, std::numeric_limits<pid_t>::max()})
    CHECK_THROWS_AS(Process::adopt(other), std::system_error);
}

TEST_CASE("a program that cannot be started is named, with the system's word for it") {
  TemporaryDirectory directory;
  write_text(directory / "data", "no program");
  const auto refusal = [&](const std::filesystem::path& program) {
    try {
      Process::spawn(
          {.program = program, .arguments = {}, .environment = {}, .standard_output = 1, .standard_error = 2});
    } catch (const std::system_error& error) {
      return std::string(error.what());
    }
    return std::string("started");
  };
  CHECK_THAT(refusal(directory / "absent"), ContainsSubstring("absent") && ContainsSubstring("No such file"));
  CHECK_THAT(refusal(directory / "data"), ContainsSubstring("data") && ContainsSubstring("Permission denied"));
  std::filesystem::permissions(directory / "data", std::filesystem::perms::owner_all);
  CHECK_THAT(refusal(directory / "data"), ContainsSubstring("data") && ContainsSubstring("Exec format error"));
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // nothing was left to reap
}

TEST_CASE("one poll sees children, signals and deadlines") {
  SignalWatch signals;
  Poller poller;
  poller.add(signals.descriptor(), 99);
  CHECK(poller.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(5)).empty());

  Script script("exit 0");
  poller.add(script.process().descriptor(), 7);
  CHECK(poller.wait(in(20)) == std::vector<std::uint64_t>{7});
  poller.remove(script.process().descriptor());

  ::kill(::getpid(), SIGTERM);
  CHECK(poller.wait(in(20)) == std::vector<std::uint64_t>{99});
  CHECK(signals.take() == SIGTERM);
  CHECK_FALSE(signals.take());
}

TEST_CASE("a child does not inherit what the launcher does with signals") {
  SignalWatch signals;
  Script script("kill -TERM $$; echo survived");
  CHECK(script.process().wait(in(20)) == Exit{.signalled = true, .code = SIGTERM});
  Script pipe("yes | head -n 1 > /dev/null; kill -PIPE $$; echo survived");
  CHECK(pipe.process().wait(in(20)) == Exit{.signalled = true, .code = SIGPIPE});
}

TEST_CASE("the launcher reports a leftover process with the rank that started it, where it knows the rank") {
  Leftover leftover{.process = 7, .name = "sleep", .rank = ""};
  CHECK(describe(leftover) == "process 7 (sleep) running; the launcher killed it");
  leftover.rank = "1";
  CHECK(describe(leftover) == "process 7 (sleep), started by rank 1, running; the launcher killed it");
  leftover.rank = all_ranks;
  CHECK(describe(leftover) ==
        "process 7 (sleep), started by one of the ranks, which are threads of one process, running; the launcher "
        "killed it");
}

TEST_CASE("the counter of processes that lacked memory is that of the control group") {
  CHECK(oom_counter_file("4:memory:/a/b\n0::/\n") == "/sys/fs/cgroup/memory/a/b/memory.oom_control");
  CHECK(oom_counter_file("0::/no such group\n") == "/proc/vmstat");
  CHECK(oom_counter_file("") == "/proc/vmstat");
  CHECK(oom_kills_in("low 0\noom 5\noom_kill 3\noom_group_kill 1\n") == 3);
  CHECK(oom_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 2") == 2);
  CHECK_FALSE(oom_kills_in("oom 5\n"));
  CHECK_FALSE(oom_kills_in(""));
}

TEST_CASE("each process that the kernel killed for memory explains one death") {
  std::optional<std::uint64_t> counter = 7;
  OomKills kills([&] { return counter; });
  CHECK_FALSE(kills.take());
  counter = 9;
  CHECK(kills.take());
  CHECK(kills.take());
  CHECK_FALSE(kills.take());
  counter = 10;
  kills.forget();
  CHECK_FALSE(kills.take());
  counter.reset();
  CHECK_FALSE(kills.take());
}
