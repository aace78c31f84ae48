// A warm process in this test's own hands: what a copy of it has of its own, and when it ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/warm_socket.hpp"
#include "harness/runner/play/warm.hpp"

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
      const std::function<void()>& at_birth = {}, const std::function<pid_t()>& instead_of_fork = {}) {
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
      const auto code = runner::stay_warm(subject);
      ::_exit(code ? *code : as_rank());
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
  base::FileDescriptor socket_;
};

TEST_CASE(
    "a copy has the environment, the output, the parent and the process group of a rank, and nothing of the socket") {
  const pid_t launcher = ::getpid();
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  base::FileDescriptor out(ends[0]), in(ends[1]);
  Warm warm([] { return Reply{}; },
            [launcher] {
              const char* const now = ::getenv("NOW");
              fmt::print("{} {} {}, ", now ? now : "", ::getenv("BEFORE") != nullptr, ::getenv("PATH") != nullptr);
              fmt::print("{} {}, {}", ::getppid() == launcher, ::getpgid(0) == ::getpid(),
                         ::fcntl(protocol::warm_socket, F_GETFD) == -1);
              std::fflush(stdout);
              return 5;
            });
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  for (const char* const value : {"first", "second"}) {
    protocol::send_request(warm.socket(), std::vector{std::string("NOW=") + value}, in.get(), in.get());
    const auto answer = protocol::receive_answer(warm.socket());
    REQUIRE(answer);
    CHECK_FALSE(answer->error);
    REQUIRE(answer->process > 0);
    CHECK(answer->process != warm.process());
    CHECK(Warm::code_of(answer->process) == 5);
    std::array<char, 100> text{};
    const ssize_t count = ::read(out.get(), text.data(), text.size());
    CHECK(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))) ==
          fmt::format("{} false false, true true, true", value));
  }
  CHECK(warm.end() == protocol::rank_left);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // nothing else was left to this process
}

TEST_CASE("a copy that cannot become a rank says why, and the process that it is a copy of goes on") {
  const auto reported = [](const std::function<void()>& at_birth) {
    Warm warm([] { return Reply{}; }, [] { return 0; }, at_birth);
    CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
    std::string error;
    for (int i = 0; i < 2; ++i) {
      protocol::send_request(warm.socket(), {}, STDOUT_FILENO, STDERR_FILENO);
      const auto answer = protocol::receive_answer(warm.socket());
      REQUIRE(answer);
      CHECK(answer->process == 0);
      error = answer->error.value();
    }
    CHECK(warm.end() == protocol::rank_left);
    return error;
  };
#ifndef SHARDPROOF_SANITIZES_ADDRESSES  // a sanitizer that cannot open a pipe takes every object for none
  CHECK_THAT(reported([] {
               const rlimit no_more{3, 3};
               ::setrlimit(RLIMIT_NOFILE, &no_more);
             }),
             ContainsSubstring("pidfd_open of process ") && ContainsSubstring("Too many open files"));
#endif
  CHECK(reported([] { throw std::runtime_error("in the copy"); }) ==
        "a copy of the warm process ended before it became a rank");
}

TEST_CASE("a rank begins only after its launcher has been answered, and else ends as one that cannot join") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  base::FileDescriptor out(ends[0]), in(ends[1]);
  pid_t original = 0;
  int births = 0;
  const auto prepare = [&] {
    original = ::getpid();
    return Reply{};
  };
  const auto as_rank = [&] {
    fmt::print("runs");
    std::fflush(stdout);
    return 0;
  };
  const auto at_birth = [&] {
    if (++births == 2) ::kill(original, SIGKILL);  // the second copy is the rank
  };
  const Warm warm(prepare, as_rank, at_birth);
  CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
  protocol::send_request(warm.socket(), {}, in.get(), in.get());
  in = base::FileDescriptor();
  std::string said;
  for (char letter = 0; ::read(out.get(), &letter, 1) == 1;) said += letter;
  CHECK(said == "the warm process of this rank ended before the rank began\n");
  CHECK_FALSE(protocol::receive_answer(warm.socket()));
  std::multiset<int> codes;
  for (int status = 0; ::waitpid(-1, &status, 0) > 0;)
    codes.insert(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  CHECK(codes == std::multiset<int>{-SIGKILL, 0, protocol::rank_could_not_join});
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

TEST_CASE("a process that cannot be copied says why in the subject's own words") {
  const auto reported = [](const std::function<pid_t()>& fork) {
    Warm warm([] { return Reply{}; }, [] { return 0; }, {}, fork);
    CHECK_FALSE(protocol::receive_answer(warm.socket())->error);
    protocol::send_request(warm.socket(), {}, STDOUT_FILENO, STDERR_FILENO);
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
