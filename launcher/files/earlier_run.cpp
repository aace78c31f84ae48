#include "launcher/files/earlier_run.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "harness/base/input_file.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/protocol/run_directory.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/own_files.hpp"
#include "launcher/files/small_file.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

using base::FileDescriptor;

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* operation, const fs::path& file) {
  throw unusable_output(file, operation, {errno, std::generic_category()});
}

/// Whether `run.json` is the head of a report. Runs of the first versions have no marker.
bool has_run_head(const fs::path& directory) {
  try {
    base::parse_json(base::read_evidence(protocol::RunDirectory{directory}.run())).get<reports::RunHead>();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Why --overwrite must not empty the directory: programs run in it, or the user's files are there. Empty: it may.
std::string why_needed(const fs::path& directory) {
  const fs::path whole = fs::canonical(directory);
  if (whole == whole.root_path()) return "it is the root directory";
  std::error_code unknown;
  const char* const home = std::getenv("HOME");
  if (home != nullptr && fs::equivalent(whole, home, unknown)) return "it is the home directory";
  const fs::path here = fs::current_path(unknown);  // empty if it was deleted
  const auto [outside, below] = std::ranges::mismatch(whole, here);
  return outside == whole.end() ? "the current directory is in it" : "";
}

/// Names in an open folder.
std::vector<std::string> names_in(int folder, const fs::path& whole) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // closedir closes it
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
  if (!entries) fail("read directory", whole);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) fail("read directory", whole);
  return names;
}

FileDescriptor open_folder(int at, const std::string& name, const fs::path& whole) {
  FileDescriptor folder(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) fail("open", whole);
  return folder;
}

/// Files that the user put into an output directory, by an option of the command that made the directory.
std::set<std::string> files_by_options(const fs::path& directory) {
  std::set<std::string> names;
  std::istringstream lines(whole_text(directory / marker_name));
  for (std::string name; std::getline(lines, name);) names.insert(name);
  return names;
}

FileDescriptor lock_marker(const fs::path& directory) {
  const fs::path file = directory / marker_name;
  FileDescriptor marker(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!marker) fail("open", file);
  const bool is_locked = ::flock(marker.get(), LOCK_EX | LOCK_NB) == 0;
  if (!is_locked && errno != EWOULDBLOCK) fail("lock", file);
  struct stat status{};
  if (::fstat(marker.get(), &status) != 0) fail("look at", file);
  // A marker that was deleted in between marks nothing: the directory may have a new one, of another command.
  if (!is_locked || status.st_nlink == 0)
    throw unusable_output(directory,
                          "another shardproof command is writing to it: wait for its end, or name another directory");
  return marker;
}

}  // namespace

bool is_output_directory(const fs::path& directory) {
  std::error_code unknown;
  return fs::symlink_status(directory / marker_name, unknown).type() == fs::file_type::regular ||
         has_run_head(directory);
}

FileDescriptor lock_run(const fs::path& directory) {
  constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  FileDescriptor locked(::open((directory / marker_name).c_str(), flags));
  if (!locked) locked = FileDescriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A run that cannot be opened is reported when it is read. Some file systems have no locks.
  if (locked && ::flock(locked.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw unusable_output(directory, "another shardproof command is writing to it: wait for its end");
  return locked;
}

EarlierRun::EarlierRun(fs::path directory) : directory_(std::move(directory)), marker_(lock_marker(directory_)) {}

FileDescriptor EarlierRun::clear() && {
  if (const std::string why = why_needed(directory_); !why.empty())
    throw unusable_output(directory_, why + ", and --overwrite would empty it: name another directory");
  const FileDescriptor folder = open_folder(AT_FDCWD, directory_.string(), directory_);
  for (const Pass pass : {Pass::check, Pass::remove}) sweep(folder.get(), directory_, "", pass);
  if (::ftruncate(marker_.get(), 0) != 0) fail("write", directory_ / marker_name);
  return std::move(marker_);
}

void EarlierRun::sweep(int folder, const fs::path& whole, const std::string& path, Pass pass) {
  const bool is_output = path.empty();
  const std::set<std::string> by_options = is_output ? files_by_options(whole) : std::set<std::string>();
  for (const std::string& name : names_in(folder, whole)) {
    if (is_output && name == marker_name) continue;  // until all else is gone
    const fs::path file = whole / name;
    const std::string inner = path + name;
    struct stat status{};
    if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) fail("read", file);
    if (S_ISDIR(status.st_mode)) {
      sweep_folder(open_folder(folder, name, file).get(), file, inner, pass);
      if (pass == Pass::remove && ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0) fail("remove", file);
    } else {
      const bool is_own_text = S_ISREG(status.st_mode) && (is_own_file(inner) || by_options.contains(name));
      const bool is_own = is_own_text || is_of_others(inner) || (S_ISLNK(status.st_mode) && is_own_link(inner));
      if (!is_own) throw foreign(file);
      if (pass == Pass::remove && ::unlinkat(folder, name.c_str(), 0) != 0) fail("remove", file);
    }
  }
}

void EarlierRun::sweep_folder(int folder, const fs::path& whole, const std::string& path, Pass pass) {
  if (is_of_others(path) || is_own_folder(path)) {
    sweep(folder, whole, path + "/", pass);
  } else if (is_output_directory(whole)) {
    if (pass == Pass::check) inner_markers_.push_back(lock_marker(whole));
    sweep(folder, whole, "", pass);
    if (pass == Pass::remove && ::unlinkat(folder, marker_name, 0) != 0) fail("remove", whole / marker_name);
  } else if (!names_in(folder, whole).empty()) {
    throw foreign(whole);
  }
}

CommandError EarlierRun::foreign(const fs::path& file) const {
  return unusable_output(
      directory_,
      fmt::format("shardproof did not write {}, and --overwrite deletes no other file: move it away, or name another "
                  "directory",
                  file.string()));
}

}  // namespace shardproof::launcher
