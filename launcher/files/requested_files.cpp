#include "launcher/files/requested_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/files/output.hpp"
#include "launcher/files/own_files.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

/// The file's name in the output directory; none: the file is not in it. Throws CommandError (usage) for a place that
/// the run itself uses.
std::optional<std::string> name_in_output(const RequestedFile& file, const OutputOptions& out) {
  if (out.directory.empty()) return std::nullopt;
  const auto inner = path_in(out.directory, file.path);
  if (!inner) return std::nullopt;
  const std::string name = inner->string();
  // Only a file directly in the directory can be noted for a later replacement.
  if (name == "." || inner->has_parent_path() || is_own_file(name) || is_own_folder(name))
    throw unusable_output(
        file.path, fmt::format("the run keeps its own files there: write {} {}, or name a file outside {}", file.option,
                               (out.directory / file.example).string(), out.directory.string()));
  return name;
}

void require_new(const RequestedFile& file) {
  try {
    require_new_file(file.path);
  } catch (const CommandError& error) {
    throw CommandError(error.code(), fmt::format("{}: {}", file.option, error.what()));
  }
}

}  // namespace

std::vector<std::string> require_requested_files(std::span<const RequestedFile> files, const OutputOptions& out) {
  std::vector<std::string> kept;
  for (auto file = files.begin(); file != files.end(); ++file) {
    const auto other = std::find_if(files.begin(), file, [&](const auto& before) { return before.path == file->path; });
    if (other != file)
      throw CommandError(
          usage, fmt::format("{} and {} name the same file: give each its own file", other->option, file->option));
    if (auto name = name_in_output(*file, out)) kept.push_back(*std::move(name));
    else require_new(*file);
  }
  return kept;
}

}  // namespace shardproof::launcher
