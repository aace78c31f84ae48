#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include "launcher/commands/command_line.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"

namespace {

using namespace shardproof::launcher;

int dispatch(const Options& options, const std::vector<std::string>& argv) {
  return std::visit(
      [&](const auto& chosen) {
        using Chosen = std::decay_t<decltype(chosen)>;
        if constexpr (std::is_same_v<Chosen, RunOptions>) return run_command(chosen, argv);
        else if constexpr (std::is_same_v<Chosen, ListOptions>) return list_command(chosen);
        else if constexpr (std::is_same_v<Chosen, FaultsOptions>) return faults_command(chosen, argv);
        else if constexpr (std::is_same_v<Chosen, MergeOptions>) return merge_command(chosen);
        else if constexpr (std::is_same_v<Chosen, DoctorOptions>) return doctor_command(chosen);
        else if constexpr (std::is_same_v<Chosen, ExplainOptions>) return explain_command(chosen);
        else if constexpr (std::is_same_v<Chosen, PlayOptions>) return play_command(chosen, argv);
        else if constexpr (std::is_same_v<Chosen, ExploreOptions>) return explore_command(chosen, argv);
        else if constexpr (std::is_same_v<Chosen, StableOptions>) return stable_command(chosen);
        else return diff_command(chosen);
      },
      options);
}

/// A parent may have closed the standard descriptors. Without this function, a rank's log could become our standard
/// error.
void reserve_standard_descriptors() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_descriptors();
  ::signal(SIGCHLD, SIG_DFL);  // if the parent ignored it, the kernel would hide from us how ranks end
  ::signal(SIGXFSZ, SIG_IGN);  // at a file size limit (ulimit -f), the write fails, but the run goes on
  try {
    const auto options = parse_command_line(argc, argv);
    return options ? dispatch(*options, {argv, argv + argc}) : all_passed;
  } catch (const CommandError& error) {
    complain(error.what());
    return error.code();
  } catch (const std::exception& error) {
    complain(error.what());
    return infrastructure;
  }
}
