#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <type_traits>
#include <vector>

#include "launcher/command_line.hpp"
#include "launcher/commands.hpp"
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
        else if constexpr (std::is_same_v<Chosen, StableOptions>) return stable_command(chosen);
        else return diff_command(chosen);
      },
      options);
}

/// A parent may have closed the standard descriptors; without this a rank's log would become our standard error.
void reserve_standard_descriptors() {
  int descriptor = 0;
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_descriptors();
  ::signal(SIGCHLD, SIG_DFL);  // a parent that ignored it would have hidden from us how ranks end
  try {
    const auto parsed = parse_command_line(argc, argv);
    if (const auto* answered = std::get_if<Answered>(&parsed)) return answered->exit_code;
    return dispatch(std::get<Options>(parsed), {argv, argv + argc});
  } catch (const CommandError& error) {
    fmt::print(stderr, "shardproof: {}\n", error.what());
    return error.code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "shardproof: {}\n", error.what());
    return infrastructure;
  }
}
