// The subjects of this program, and its main function. One subject does not release its device memory. The other does
// the same, and is prepared once for all ranks.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/player/play.hpp"
#include "harness/runner/play/play_main.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/subject/subject.hpp"
#include "tests/launcher/trouble/trouble.hpp"

namespace {

using namespace shardproof;

/// Trains nothing, and says that all went well.
class Idler final : public Trainer {
 public:
  Reply perform(const Action& /*action*/, const Batch& /*batch*/) override { return {}; }
  Reply loss(Tensor& /*out*/) override { return Reply::failed("there is no loss"); }
  Reply parameters(std::vector<ParameterView>& out) override {
    out.clear();
    return {};
  }
};

class Hoarder : public Subject {
 public:
  std::string_view name() const override { return "hoarder"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {}; }
  Reply create(const Model& /*model*/, const Plan& /*plan*/, const EngineContext& engine_context,
               std::unique_ptr<Trainer>& out) override {
    if (engine_context.rank == 1)
      hoard_.push_back(
          engine_context.device.empty(Device::compute, DType::f32, {16}, MemoryClass::parameter, "hoarded"));
    out = std::make_unique<Idler>();
    return {};
  }

 private:
  std::vector<Tensor> hoard_;
};

pid_t prepared_in = 0;  // which copies of that process know from it

/// A line in the file that the variable names.
void note(const char* variable, pid_t process) {
  if (const char* const file = std::getenv(variable)) std::ofstream(file, std::ios::app) << process << std::endl;
}

/// In sessions of their own: one that stays this process's child, and one that nothing leads back to. DAEMONS names a
/// file that has them.
void leave_daemons() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  for (const bool is_orphan : {false, true}) {
    const pid_t child = ::fork();
    if (child != 0) {
      if (is_orphan) ::waitpid(child, nullptr, 0);
      continue;
    }
    ::setsid();
    if (is_orphan && ::fork() != 0) ::_exit(0);
    note("DAEMONS", ::getpid());
    ::alarm(30);
    char name[] = "sleep", seconds[] = "30";
    char* const words[] = {name, seconds, nullptr};
    char* const nothing[] = {nullptr};
    ::execve("/bin/sleep", words, nothing);
    ::_exit(1);
  }
  ::close(ends[1]);
  char none = 0;
  while (::read(ends[0], &none, 1) > 0) {  // until both are what they are to be
  }
  ::close(ends[0]);
}

/// PREPARED names a file that gets a line for each preparation, FORKED one for each copy that is asked for; PREPARE
/// says what goes wrong.
class WarmHoarder final : public Hoarder {
 public:
  std::string_view name() const override { return "warm"; }
  bool wants_preparation() const override { return true; }
  Reply prepare() override {
    prepared_in = ::getpid();
    note("PREPARED", prepared_in);
    const char* const trouble = std::getenv("PREPARE");
    const std::string what = trouble == nullptr ? "" : trouble;
    Reply reply;
    if (what == "fails") {
      reply = Reply::failed("there is no ink\ninstall some");
      reply.warnings = {"the paper is thin"};
      return reply;
    }
    if (what == "throws") throw std::runtime_error("out of paper");
    if (what == "dies") {
      std::fputs("the printer is on fire\n", stderr);
      ::_exit(7);
    }
    if (what == "hangs") trouble::stay();
    if (what == "leaves daemons") leave_daemons();
    if (what == "warns") {
      reply.warnings = {"the paper is thin\x1b[2J", "and the ink is pale"};
      return reply;
    }
    std::printf("warm\n");  // unflushed: once is enough
    return {};
  }
  pid_t fork() override {
    note("FORKED", ::getpid());
    if (const char* const trouble = std::getenv("PREPARE");
        trouble != nullptr && std::string_view(trouble) == "copies nothing") {
      errno = EAGAIN;
      return -1;
    }
    return ::fork();
  }
};

}  // namespace

pid_t trouble::original() { return prepared_in; }

RANKED_TEST_CASE("fails/is_not_quiet_at_its_end", ranks(2)) {
  play(rank, sleeping_stack(1));
  CHECK(true);
}

int main(int argc, char** argv) {
  PlayProgram program;
  program.subjects = {[] { return std::make_unique<Hoarder>(); }, [] { return std::make_unique<WarmHoarder>(); }};
  return play_main(argc, argv, program);
}
