#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <memory>

#include "launcher/commands/command_line.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"

namespace {

using namespace shardproof::launcher;

/// A parent may have closed the standard descriptors. Without this function, a rank's log could become our standard
/// error. Writing to them still fails: lost output must not look like success.
void reserve_standard_descriptors() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_descriptors();
  ::signal(SIGCHLD, SIG_DFL);  // if the parent ignored it, the kernel would hide from us how ranks end
  ::signal(SIGXFSZ, SIG_IGN);  // at a file size limit (ulimit -f), the write fails, but the run goes on
  ::signal(SIGPIPE, SIG_IGN);  // a reader that leaves, as `head` does, must not end a command before its work is done
  try {
    const std::unique_ptr<Subcommand> command = parse_command_line(argc, argv);
    return command ? command->run({argv, argv + argc}) : all_passed;
  } catch (const CommandError& error) {
    print_error(error.what());
    return error.code();
  } catch (const std::exception& error) {
    print_error(error.what());
    return infrastructure;
  }
}
