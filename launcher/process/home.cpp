#include "launcher/process/home.hpp"

#include <fmt/format.h>

#include "launcher/files/small_file.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

/// The source tree of a build folder. Empty: `home` is an installation.
std::string source_tree(const std::filesystem::path& home) {
  constexpr std::string_view entry = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  const std::string cache = whole_text(home / "CMakeCache.txt");
  const std::size_t found = cache.find(entry);
  if (found == std::string::npos) return {};
  const std::size_t value = found + entry.size();
  return cache.substr(value, cache.find('\n', value) - value);
}

}  // namespace

std::filesystem::path launcher_home() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

std::string why_missing(const OptionalPart& part, const std::filesystem::path& home) {
  const std::string source = source_tree(home), folder = reports::shell_word(home.string());
  const std::string missing = fmt::format("{} is not {}: there is no {}", part.name,
                                          source.empty() ? "installed" : "built", part.file.string());
  const std::string commands = source.empty() ? fmt::format(
                                                    "Build and install it, in the source tree of shardproof:\n"
                                                    "  cmake --preset default\n"
                                                    "  cmake --build build --target shardproof_package\n"
                                                    "  cmake --install build --prefix {}",
                                                    folder)
                                              : fmt::format(
                                                    "Build it:\n"
                                                    "  cmake -S {} -B {}\n"
                                                    "  cmake --build {} --target {}",
                                                    reports::shell_word(source), folder, folder, part.target);
  return fmt::format("{}\n{}\nThe first command needs the CUDA Toolkit 12 or later, and NCCL 2.22 or later.", missing,
                     commands);
}

}  // namespace shardproof::launcher
