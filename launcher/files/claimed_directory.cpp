#include "launcher/files/claimed_directory.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "launcher/files/earlier_run.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/own_files.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

namespace fs = std::filesystem;

/// The folder in the current directory for output without its own place.
constexpr char default_parent[] = "shardproof-out";

/// The plan of a world names the directory in JSON, where text is UTF-8: other bytes would lead ranks to another
/// directory.
void require_utf8(const fs::path& directory) {
  const std::string text = directory.string();
  if (base::parse_json(base::dump_line(text)) == text) return;
  throw unusable_output(base::parse_json(base::dump_line(text)).get<std::string>(),
                        "this path is not UTF-8: name another directory");
}

/// Two runs in the same second get different names, even if they start at once.
fs::path make_dated_directory(const fs::path& parent) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string date = fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(now));
  for (int counter = 1;; ++counter) {
    const fs::path candidate = parent / fmt::format("{}-{}", date, counter);
    std::error_code error;
    if (fs::create_directory(candidate, error)) return candidate;
    if (error) throw unusable_output(candidate, fmt::format("cannot make it: {}", error.message()));
  }
}

/// The absolute path, without a `/` or `/.` at its end, which would look through a link.
fs::path whole_path(const fs::path& requested) {
  fs::path whole = fs::absolute(requested);
  while (whole.has_relative_path() && (whole.filename().empty() || whole.filename() == "."))
    whole = whole.parent_path();
  return whole;
}

/// Only one of several simultaneous commands makes the marker. Empty: the directory is not empty, or another command
/// has replaced the marker.
base::FileDescriptor make_marker(const fs::path& directory) {
  std::error_code error;
  const bool is_empty = fs::is_empty(directory, error);
  if (error) throw unusable_output(directory, fmt::format("cannot read it: {}", error.message()));
  if (!is_empty) return {};
  const fs::path file = directory / marker_name;
  base::FileDescriptor marker(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!marker && errno == EEXIST) return {};
  if (!marker) throw unusable_output(file, fmt::format("cannot make it: {}", std::generic_category().message(errno)));
  // A file system without locks keeps out only the commands that do not replace the run: they find the directory not
  // empty.
  if (::flock(marker.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  return marker;
}

/// The path of `path` relative to `folder`. Empty: it is not inside the folder. Both are canonical.
std::optional<fs::path> below(const fs::path& folder, const fs::path& path) {
  if (std::ranges::mismatch(folder, path).in1 != folder.end()) return std::nullopt;
  return path.lexically_relative(folder);
}

/// point_latest_to makes a link of such a name, and renames it at once.
constexpr std::string_view fresh_link_prefix = ".latest-";

/// A launcher that was killed between making its link and renaming it leaves the link. A younger link belongs to a
/// launcher that runs now.
void remove_stale_links(const fs::path& parent) {
  constexpr std::time_t stale_after = 60;
  std::error_code ignored;  // a stale link does no harm
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    struct stat status{};
    if (!entry.path().filename().string().starts_with(fresh_link_prefix) || ::lstat(entry.path().c_str(), &status) != 0)
      continue;
    if (S_ISLNK(status.st_mode) && status.st_mtime < std::time(nullptr) - stale_after)
      fs::remove(entry.path(), ignored);
  }
}

}  // namespace

std::optional<fs::path> path_in(const fs::path& directory, const fs::path& file) {
  std::error_code unknown;
  return below(fs::weakly_canonical(whole_path(directory), unknown), fs::weakly_canonical(whole_path(file), unknown));
}

ClaimedDirectory::ClaimedDirectory(const OutputOptions& requested) {
  if (requested.directory.empty()) {
    std::error_code deleted;
    const fs::path parent = fs::absolute(default_parent, deleted);
    if (deleted)
      throw CommandError(usage, "the current directory was deleted: name a directory for the run with --out");
    require_utf8(parent);
    make_directory(parent);
    path_ = make_dated_directory(parent);
    marker_ = make_marker(path_);
    return;
  }
  path_ = whole_path(requested.directory);
  require_utf8(path_);
  std::error_code unknown;
  if (requested.overwrite && fs::is_symlink(path_, unknown))
    throw unusable_output(path_, "it is a symbolic link, and --overwrite does not follow links: name its target");
  if (fs::exists(path_, unknown) && !fs::is_directory(path_, unknown))
    throw unusable_output(path_, "it is not a directory: name a new or an empty directory");
  make_directory(path_);
  // The link to the latest run may be part of the path, and will lead elsewhere.
  path_ = fs::canonical(path_);
  require_utf8(path_);
  marker_ = make_marker(path_);
  if (!marker_) {
    if (!is_output_directory(path_))
      throw unusable_output(path_,
                            "it is not empty, and shardproof did not write it: name a new or an empty directory");
    if (!requested.overwrite)
      throw unusable_output(path_,
                            "it holds an earlier run: name another directory, or replace that run with --overwrite");
    marker_ = EarlierRun(path_).clear();
  }
  try {
    require_writable(path_);
  } catch (const CommandError&) {
    ::unlink((path_ / marker_name).c_str());  // usable again once there is room
    throw;
  }
}

void ClaimedDirectory::note_file(const std::string& name) {
  const std::string line = name + "\n";
  if (::write(marker_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw unusable_output(path_ / marker_name,
                          fmt::format("cannot write it: {}", std::generic_category().message(errno)));
}

std::filesystem::path relative_to_current(const std::filesystem::path& file) {
  std::error_code ignored;
  const fs::path here = fs::current_path(ignored);
  if (here.empty()) return file;  // it was deleted
  const auto near = std::filesystem::proximate(file, here, ignored);
  return near.empty() || *near.begin() == ".." ? file : near;
}

void require_not_replaced(const fs::path& input, const OutputOptions& output) {
  if (!output.overwrite) return;
  if (path_in(output.directory, input))
    throw unusable_output(
        output.directory,
        fmt::format("{} is in it, and --overwrite would delete this input: name another directory", input.string()));
}

std::optional<std::string> point_latest_to(const protocol::RunDirectory& run) {
  std::error_code error, ignored;
  const fs::path parent = fs::canonical(default_parent, error);
  if (error || !fs::is_directory(parent)) return std::nullopt;
  const fs::path whole = fs::canonical(run.root);
  if (whole == parent) return std::nullopt;
  const fs::path link = parent / "latest";
  const auto obstacle = [&](const std::string& why) {
    return fmt::format("{} does not point to this run: {}", link.string(), why);
  };
  if (fs::exists(fs::symlink_status(link, ignored)) && !fs::is_symlink(link))
    return obstacle("it is not a symbolic link; move it away");
  remove_stale_links(parent);
  const fs::path fresh = parent / fmt::format("{}{}-{}", fresh_link_prefix, getpid(), std::random_device()());
  fs::create_directory_symlink(below(parent, whole).value_or(whole), fresh, error);
  if (!error) fs::rename(fresh, link, error);  // atomic: there is always a latest
  if (!error) return std::nullopt;
  fs::remove(fresh, ignored);
  return obstacle(error.message());
}

}  // namespace shardproof::launcher
