#include "harness/runner/launcher_search.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "harness/base/shell_word.hpp"
#include "harness/runner/complaint.hpp"

extern "C" {
/// Weak: a program that links the libraries in another way does not define it.
extern const char shardproof_launcher_path[] __attribute__((weak));
}

namespace shardproof::runner {

namespace fs = std::filesystem;

namespace {

constexpr char variable_name[] = "SHARDPROOF_LAUNCHER";
constexpr char launcher_name[] = "shardproof";

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

bool is_program(const fs::path& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

fs::path find_launcher(const LauncherPlaces& places, const IsProgram& is_program) {
  if (!places.variable.empty()) {
    if (is_program(places.variable)) return places.variable;
    throw NoLauncher(fmt::format("{0}={1} is not a program: set {0} to the path of `{2}`, or unset it", variable_name,
                                 places.variable, launcher_name));
  }
  const fs::path compiled_in = places.compiled_in.empty() ? fs::path() : places.program_folder / places.compiled_in;
  if (!compiled_in.empty() && is_program(compiled_in)) return compiled_in;
  std::string_view left = places.search_path;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(':'), left.size());
    const fs::path candidate = fs::path(left.substr(0, end)) / launcher_name;
    if (end > 0 && is_program(candidate)) return candidate;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  throw NoLauncher(fmt::format(
      "cannot find the launcher `{0}`, which starts ranks. {1} is not set, {2}, and no folder of PATH has it. Install "
      "shardproof (cmake --install BUILD --prefix DIR), and set {1}=DIR/bin/{0} or add DIR/bin to PATH",
      launcher_name, variable_name,
      compiled_in.empty() ? "this program was built without its path"
                          : fmt::format("{} is not a program", compiled_in.string())));
}

std::vector<std::string> launcher_command(const fs::path& launcher, const std::string& program,
                                          std::span<const std::string_view> options) {
  std::vector<std::string> command{launcher.string(), "run", "--worker", program};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

void become_launcher(const std::string& name, std::span<const std::string_view> options) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const char* const compiled_in = shardproof_launcher_path;
  const fs::path launcher = find_launcher({.variable = value_of(variable_name),
                                           .compiled_in = compiled_in == nullptr ? "" : compiled_in,
                                           .program_folder = self.parent_path(),
                                           .search_path = value_of("PATH")},
                                          is_program);
  std::error_code unknown;
  if (fs::equivalent(launcher, self, unknown))
    throw NoLauncher(fmt::format("{} is this program, and not the launcher: set {} to the path of `{}`",
                                 launcher.string(), variable_name, launcher_name));
  // A name without a slash was found in PATH, where the launcher does not look for workers.
  const std::string program = name.find('/') == std::string::npos ? self.string() : name;
  std::vector<std::string> command = launcher_command(launcher, program, options);
  const std::string short_name = fs::path(name).filename().string();
  std::string text = fmt::format("{0}: running {0} through", short_name);
  for (const std::string& word : command) text += " " + base::shell_word(word);
  complain(text);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execv(words.front(), words.data());
  throw std::system_error(errno, std::generic_category(), fmt::format("cannot execute {}", launcher.string()));
}

}  // namespace shardproof::runner
