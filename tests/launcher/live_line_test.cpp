// The same command on a terminal: a line that lives, colour, and neither when it is not wanted.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/base/file_descriptor.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// All that the command writes to a terminal of its own.
std::string on_a_terminal(std::vector<std::string> arguments, std::vector<std::string> environment) {
  const base::FileDescriptor screen(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(screen);
  REQUIRE(::grantpt(screen.get()) == 0);
  REQUIRE(::unlockpt(screen.get()) == 0);
  base::FileDescriptor terminal(::open(::ptsname(screen.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(terminal);
  Process process = Process::spawn({.program = SHARDPROOF_LAUNCHER,
                                    .arguments = std::move(arguments),
                                    .environment = std::move(environment),
                                    .standard_output = terminal.get(),
                                    .standard_error = terminal.get()});
  terminal = base::FileDescriptor();  // now the command alone holds it
  std::string text;
  std::array<char, 4096> part{};
  // Fails once no process holds the other end: the command has ended.
  for (ssize_t count = 0; (count = ::read(screen.get(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(count));
  return text;
}

std::string run_on_a_terminal(std::vector<std::string> arguments, std::vector<std::string> environment) {
  const TemporaryDirectory directory;
  arguments.insert(arguments.begin(),
                   {"run", "--worker", trouble_program().string(), "--out", (directory / "run").string()});
  return on_a_terminal(std::move(arguments), std::move(environment));
}

}  // namespace

TEST_CASE("a terminal shows what runs while it runs, and wipes it after") {
  const std::string screen = run_on_a_terminal({"bad/hangs", "--timeout", "1"}, {"TERM=xterm"});
  CHECK_THAT(screen, ContainsSubstring("\r0/1 cases | bad/hangs[W=2] 0."));
  CHECK_THAT(screen, ContainsSubstring("\r\x1b[K"));
  CHECK_THAT(screen, ContainsSubstring("\x1b[31;1m"));
  // The last thing said is the summary, not the line.
  CHECK(screen.rfind("0/1 cases") < screen.rfind("1 hung"));
}

TEST_CASE("the terminal shows no colour where the user refuses it") {
  const std::string plain = run_on_a_terminal({"bad/check"}, {"TERM=xterm", "NO_COLOR=1"});
  CHECK_THAT(plain, !ContainsSubstring("\x1b[3") && !ContainsSubstring("\x1b[1"));
  const std::string dumb = run_on_a_terminal({"bad/check"}, {"TERM=dumb"});
  CHECK_THAT(dumb, !ContainsSubstring("\x1b"));
  const std::string quiet = run_on_a_terminal({"good", "-q"}, {"TERM=xterm"});
  CHECK_THAT(quiet, !ContainsSubstring("\r0/") && !ContainsSubstring("world 0"));
}

TEST_CASE("faults shows on a terminal how many faults are done, and the remaining time") {
  const std::vector<std::string> command{"faults", "--worker", SHARDPROOF_FAULTY_PROGRAM};
  const std::string screen = on_a_terminal(command, {"TERM=xterm"});
  CHECK_THAT(screen, ContainsSubstring("\r0/3 faults, about 1 s left | noticed 0.0 s") &&
                         ContainsSubstring("\r1/3 faults, about 1 s left | ") && ContainsSubstring("\r2/3 faults"));
  CHECK(screen.rfind("2/3 faults") < screen.rfind("1 of 3 faults killed"));
}
