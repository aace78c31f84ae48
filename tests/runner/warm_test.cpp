// A warm process in this test's own hands: what a copy of it has of its own, and when it ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/warm_socket.hpp"
#include "harness/runner/play/subject_preparation.hpp"
#include "harness/runner/warm.hpp"

namespace shardproof {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

class Prepared final : public Subject {
 public:
  explicit Prepared(std::function<Reply()> prepare) : prepare_(std::move(prepare)) {}
  std::string_view name() const override { return "prepared"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {}; }
  Reply create(const Model&, const Plan&, const EngineContext&, std::unique_ptr<Trainer>&) override { return {}; }
  Reply prepare() override {
    prepared_in_ = ::getpid();
    return prepare_();
  }
  /// The first actions of a copy.
  std::function<void()> at_birth;
  std::function<pid_t()> instead_of_fork;
  /// The copy between takes its time to end: who does not wait for that is seen with the wrong parent.
  pid_t fork() override {
    if (instead_of_fork) return instead_of_fork();
    const pid_t process = ::fork();
    if (process == 0 && at_birth) at_birth();
    if (process > 0 && ::getpid() != prepared_in_) ::usleep(20'000);
    return process;
  }

 private:
  pid_t prepared_in_ = 0;
  std::function<Reply()> prepare_;
};

/// A child of this process that stays warm; what its copies do besides is `as_rank`, and what they return is their exit
/// code.
class Warm {
 public:
  explicit Warm(
      const std::function<Reply()>& prepare, const std::function<int()>& as_rank = [] { return 0; },
      const std::function<void()>& at_birth = {}, const std::function<pid_t()>& instead_of_fork = {},
      const std::function<void()>& with_world = [] {}) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    auto [ours, theirs] = protocol::make_warm_sockets();
    process_ = ::fork();
    if (process_ == 0) {
      ours = base::FileDescriptor();
      ::dup2(theirs.get(), protocol::warm_socket);
      ::setenv("BEFORE", "1", 1);
      Prepared subject(prepare);
      subject.at_birth = at_birth;
      subject.instead_of_fork = instead_of_fork;
      const runner::WarmEnd end = runner::stay_warm(
          {.prepare = [&] { return runner::prepare(subject); }, .fork = [&] { return subject.fork(); }}, [&] {
            ::setenv("OF_WORLD", "1", 1);
            with_world();
          });
      if (end.code) ::_exit(*end.code);
      runner::wait_for_launcher(end.gate);
      ::_exit(as_rank());
    }
    socket_ = std::move(ours);
  }
  /// Reaps the copies too: they are orphans, which this process takes in.
  ~Warm() {
    socket_ = base::FileDescriptor();
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
  pid_t process() const { return process_; }
  int socket() const { return socket_.get(); }
  /// Asks for ranks with these variables. Their output goes to `output`, a path.
  void ask(const std::vector<std::string>& variables, const std::string& output = "/dev/null") {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    theirs_ = base::FileDescriptor(ends[0]);
    gate_ = base::FileDescriptor(ends[1]);
    protocol::CopyRequest request{.environment = {"COMMON=1"}, .ranks = {}};
    for (const std::string& variable : variables)
      request.ranks.push_back({.environment = {variable}, .standard_output = output, .standard_error = output});
    protocol::send_request(socket_.get(), request, theirs_.get());
  }
  void let_begin(std::size_t ranks) {
    REQUIRE(::write(gate_.get(), std::string(ranks, '!').data(), ranks) == static_cast<ssize_t>(ranks));
  }
  void give_up() { gate_ = base::FileDescriptor(); }
  int end() {
    socket_ = base::FileDescriptor();
    return code_of(process_);
  }
  static int code_of(pid_t process) {
    int status = 0;
    REQUIRE(::waitpid(process, &status, 0) == process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = 0;
  base::FileDescriptor socket_, gate_, theirs_;
};

/// The variables that other processes see, with spaces between.
std::string seen_environment() {
  std::string text;
  std::ifstream file("/proc/self/environ");
  for (std::string variable; std::getline(file, variable, '\0');) text += variable.empty() ? "" : variable + ' ';
  return text;
}

class LogFile {
 public:
  LogFile() {
    const int file = ::mkstemp(name_.data());
    REQUIRE(file >= 0);
    ::close(file);
  }
  LogFile(const LogFile&) = delete;
  ~LogFile() { ::unlink(name_.c_str()); }
  const std::string& name() const { return name_; }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(name_).rdbuf();
    return text.str();
  }

 private:
  std::string name_ = "/tmp/shardproof-warm-test-XXXXXX";
};

TEST_CASE(
    "a copy has the environment, the output, the parent and the process group of a rank, and nothing of the socket") {
  const pid_t launcher = ::getpid();
  const LogFile log;
  Warm warm([] { return Reply{}; },
            [launcher] {
              const char* const now = ::getenv("NOW");
              fmt::print("{} {} {} {}, ", now ? now : "", ::getenv("BEFORE") != nullptr, ::getenv("PATH") != nullptr,
                         ::getenv("COMMON") != nullptr);
              fmt::print("{} {}, {}, {}\n", ::getppid() == launcher, ::getpgid(0) == ::getpid(),
                         ::fcntl(protocol::warm_socket, F_GETFD) == -1, seen_environment());
              std::fflush(stdout);
              return 5;
            });
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  for (const char* const value : {"first", "second"}) {
    warm.ask({std::string("NOW=") + value}, log.name());
    const auto answer = protocol::receive_answer(warm.socket());
    REQUIRE(answer);
    CHECK_FALSE(answer->error);
    REQUIRE(answer->processes.size() == 1);
    CHECK(answer->processes[0] != warm.process());
    warm.let_begin(1);
    CHECK(Warm::code_of(answer->processes[0]) == 5);
    CHECK(log.text() == fmt::format("{0} false false true, true true, true, COMMON=1 OF_WORLD=1 NOW={0} \n", value));
  }
  CHECK(warm.end() == protocol::rank_left);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // nothing else was left to this process
}

TEST_CASE("all ranks of a world are copied at once, and each has its own variables") {
  Warm warm([] { return Reply{}; }, [] { return std::stoi(::getenv("CODE")); });
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  std::vector<std::string> variables;
  for (int rank = 0; rank < 64; ++rank) variables.push_back(fmt::format("CODE={}", rank));
  warm.ask(variables);
  const auto answer = protocol::receive_answer(warm.socket());
  REQUIRE(answer);
  REQUIRE(answer->processes.size() == 64);
  warm.let_begin(64);
  for (int rank = 0; rank < 64; ++rank) CHECK(Warm::code_of(answer->processes[static_cast<std::size_t>(rank)]) == rank);
}

TEST_CASE("a world whose process ends too early gets no ranks, and the process that it is a copy of goes on") {
  Warm warm([] { return Reply{}; }, [] { return 0; }, [] { throw std::runtime_error("in the copy"); });
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  for (int i = 0; i < 2; ++i) {
    warm.ask({"RANK=0"});
    const auto answer = protocol::receive_answer(warm.socket());
    REQUIRE(answer);
    CHECK(answer->processes.empty());
    CHECK(answer->error == "a copy of the warm process ended before it had made the ranks of its world");
  }
  CHECK(warm.end() == protocol::rank_left);
}

TEST_CASE("a rank that cannot open its log ends as one that cannot join") {
  Warm warm([] { return Reply{}; });
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  warm.ask({"RANK=0"}, "/nowhere/log");
  const auto answer = protocol::receive_answer(warm.socket());
  REQUIRE(answer);
  REQUIRE(answer->processes.size() == 1);
  warm.let_begin(1);
  CHECK(Warm::code_of(answer->processes[0]) == protocol::rank_could_not_join);
}

TEST_CASE("ranks that their launcher gives up do not begin") {
  const LogFile log;
  Warm warm([] { return Reply{}; });
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  warm.ask({"RANK=0", "RANK=1"}, log.name());
  const auto answer = protocol::receive_answer(warm.socket());
  REQUIRE(answer);
  REQUIRE(answer->processes.size() == 2);
  warm.give_up();
  for (const pid_t process : answer->processes) CHECK(Warm::code_of(process) == protocol::rank_could_not_join);
  CHECK(log.text().empty());
}

TEST_CASE("what cannot be prepared says why, and ends as a rank that cannot join") {
  for (const auto& prepare : {std::function<Reply()>([] { return Reply::failed("no ink"); }),
                              std::function<Reply()>([]() -> Reply { throw std::runtime_error("no ink"); })}) {
    Warm warm(prepare);
    CHECK(protocol::receive_answer(warm.socket())->error == "no ink");
    CHECK(warm.end() == protocol::rank_could_not_join);
  }
}

TEST_CASE("the warm process names a thread that prepare left running, and ignores a joined thread") {
  const auto prepared = [](const std::function<void()>& threads) {
    Warm warm([threads] {
      threads();
      return Reply{};
    });
    const auto error = protocol::receive_answer(warm.socket())->error;
    CHECK(warm.end() == (error ? protocol::rank_could_not_join : protocol::rank_left));
    return error.value_or("");
  };
  const auto waits_for_ever = [] {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
  };
  CHECK(prepared([] {
          for (int i = 0; i < 100; ++i) std::thread([] {}).join();
        }).empty());
  CHECK_THAT(prepared(waits_for_ever),
             StartsWith("it left a thread running, which a copy of the process does not have: \"test_runner\""));
  CHECK_THAT(prepared([&] {
               waits_for_ever();
               waits_for_ever();
             }),
             StartsWith("it left 2 threads running, which a copy of the process does not have: "
                        "\"test_runner\", \"test_runner\""));
}

TEST_CASE("a thread that begins while a world is prepared is not blamed on the subject") {
  Warm warm([] { return Reply{}; }, [] { return 0; }, {}, {},
            [] {
              std::thread([] {
                for (;;) ::pause();
              }).detach();
            });
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  for (int world = 0; world < 2; ++world) {
    warm.ask({"RANK=0"});
    const auto answer = protocol::receive_answer(warm.socket());
    REQUIRE(answer);
    CHECK(answer->processes.empty());
    CHECK_THAT(answer->error.value(),
               StartsWith("cannot copy the process of a world: it left a thread running, which a copy of the process "
                          "does not have: \"test_runner\"; this came with the world's cases and with Catch2, ") &&
                   ContainsSubstring("and not from a subject: end them there, or use --no-warm"));
  }
  CHECK(warm.end() == protocol::rank_left);
}

TEST_CASE("a process that cannot be copied says why in the subject's own words") {
  const auto reported = [](const std::function<pid_t()>& fork) {
    Warm warm([] { return Reply{}; }, [] { return 0; }, {}, fork);
    CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
    warm.ask({"RANK=0"});
    const auto answer = protocol::receive_answer(warm.socket());
    REQUIRE(answer);
    CHECK(warm.end() == protocol::rank_left);
    return answer->error.value();
  };
  CHECK(reported([]() -> pid_t { throw std::runtime_error("no second runtime"); }) ==
        "cannot copy the warm process: no second runtime");
  CHECK(reported([]() -> pid_t { throw 5; }) ==
        "cannot copy the warm process: fork threw something that is not a std::exception");
  CHECK(reported([]() -> pid_t { return 0; }) ==
        "cannot copy the warm process: fork returned 0, as in a copy, but made no copy");
  CHECK(reported([]() -> pid_t {
          errno = EPERM;
          return -1;
        }) == "cannot copy the warm process: Operation not permitted");
  // The copy between, which is copied once more.
  CHECK_THAT(reported([]() -> pid_t {
               const pid_t process = ::fork();
               if (process == 0)
                 std::thread([] {
                   for (;;) ::pause();
                 }).detach();
               return process;
             }),
             StartsWith("cannot copy the warm process: prepare or fork: it left a thread running"));
}

}  // namespace
}  // namespace shardproof
