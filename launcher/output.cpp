#include "launcher/output.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "harness/protocol/json_parse.hpp"
#include "harness/protocol/json_text.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

CommandError unusable(const std::filesystem::path& path, const char* operation, const std::error_code& why) {
  return {usage, fmt::format("output unusable: {} {}: {}", operation, path.string(), why.message())};
}

/// A stream keeps no reason of its own; the system call below it does.
std::error_code last_error() { return {errno != 0 ? errno : EIO, std::generic_category()}; }

/// Ranks are told the directory in JSON, where text is UTF-8: what is mended there would lead them elsewhere.
void require_tellable(const std::filesystem::path& directory) {
  const std::string text = directory.string();
  if (parse_json(dump_line(text)) == text) return;
  throw CommandError(usage,
                     fmt::format("output unusable: the path {} is not UTF-8, and ranks could not be told it: name another with --out",
                                 parse_json(dump_line(text)).get<std::string>()));
}

/// Two runs of one second get different names, also when they start at once.
std::filesystem::path make_dated_directory(const std::filesystem::path& parent) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string date = fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(now));
  for (int counter = 1;; ++counter) {
    const std::filesystem::path candidate = parent / fmt::format("{}-{}", date, counter);
    std::error_code error;
    if (std::filesystem::create_directory(candidate, error)) return candidate;
    if (error) throw unusable(candidate, "make directory", error);
  }
}

CommandError not_empty(const std::filesystem::path& directory) {
  return {usage,
          fmt::format("output unusable: {} is not empty, and nothing is ever overwritten: name a new directory", directory.string())};
}

}  // namespace

void make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw unusable(directory, "make directory", error);
}

RunDirectory make_run_directory(const std::filesystem::path& asked) { return {claim_directory(asked, RunDirectory().worlds().string())}; }

std::filesystem::path claim_directory(const std::filesystem::path& asked, const std::string& first) {
  if (asked.empty()) {
    const std::filesystem::path parent = std::filesystem::absolute("shardproof-out");
    require_tellable(parent);
    make_directory(parent);
    const std::filesystem::path directory = make_dated_directory(parent);
    make_directory(directory / first);
    return directory;
  }
  const std::filesystem::path directory = std::filesystem::absolute(asked);
  require_tellable(directory);
  make_directory(directory);
  std::error_code error;
  const bool empty = std::filesystem::is_empty(directory, error);
  if (error) throw unusable(directory, "read directory", error);
  if (!empty) throw not_empty(directory);
  const std::filesystem::path claim = directory / first;
  // Somebody else may have found it empty too; only one of us makes this.
  const bool ours = std::filesystem::create_directory(claim, error);
  if (error) throw unusable(claim, "make directory", error);
  if (!ours) throw not_empty(directory);
  try {
    require_writable(directory);
  } catch (const CommandError&) {
    std::filesystem::remove(claim, error);  // usable again once there is room
    throw;
  }
  return directory;
}

std::optional<std::string> point_latest_to(const RunDirectory& run) {
  const std::filesystem::path link = run.root.parent_path() / "latest";
  const std::filesystem::path fresh = run.root.parent_path() / fmt::format(".latest-{}", getpid());
  std::error_code error, ignored;
  std::filesystem::remove(fresh, ignored);  // of a process of the same number that was killed
  std::filesystem::create_directory_symlink(run.root.filename(), fresh, error);
  if (!error) std::filesystem::rename(fresh, link, error);  // atomic: there is always a latest
  if (!error) return std::nullopt;
  std::filesystem::remove(fresh, ignored);
  return fmt::format("{} does not lead to this run: {}", link.string(), error.message());
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  write_file(file, [&](std::ostream& out) { out.write(text.data(), static_cast<std::streamsize>(text.size())); });
}

void write_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write) {
  // What is no plain file, a device or a pipe, is written to; a plain one is replaced by one that is whole.
  std::error_code unknown;  // where a path cannot be looked at, opening it says why
  const bool exists = std::filesystem::exists(file, unknown), is_plain = std::filesystem::is_regular_file(file, unknown);
  const bool replaces = !exists || is_plain;
  const std::filesystem::path target = is_plain ? std::filesystem::canonical(file, unknown) : file;  // a link to a file stays one
  const std::filesystem::path fresh = replaces ? target.string() + ".new" : target.string();
  errno = 0;
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  if (!out) throw unusable(file, "open", last_error());
  write(out);
  out.close();
  const bool done = !out.fail() && (!replaces || ::rename(fresh.c_str(), target.c_str()) == 0);
  if (done) return;
  const std::error_code why = last_error();
  if (replaces) ::unlink(fresh.c_str());
  throw unusable(file, "write", why);
}

FileDescriptor open_log(const std::filesystem::path& file) {
  FileDescriptor log(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
  if (!log) throw unusable(file, "open", last_error());
  return log;
}

void require_new_file(const std::filesystem::path& file) {
  std::error_code unknown;
  const auto there = std::filesystem::status(file, unknown).type();
  if (there == std::filesystem::file_type::directory) throw unusable(file, "open", std::make_error_code(std::errc::is_a_directory));
  // A link that leads nowhere would be replaced.
  if (there == std::filesystem::file_type::regular ||
      (!std::filesystem::exists(file, unknown) && std::filesystem::is_symlink(file, unknown)))
    throw CommandError(
        usage, fmt::format("output unusable: {} is there already, and nothing is ever overwritten: name a new file", file.string()));
  if (std::filesystem::exists(file, unknown)) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  errno = 0;
  if (::access((folder / "").c_str(), W_OK | X_OK) != 0) throw unusable(file, "open", last_error());
}

void require_writable(const std::filesystem::path& directory) {
  const std::filesystem::path probe = directory / ".probe";
  write_file(probe, std::string(4096, ' '));
  ::unlink(probe.c_str());
}

}  // namespace shardproof::launcher
