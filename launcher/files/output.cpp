#include "launcher/files/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "harness/base/input_file.hpp"
#include "harness/base/log_file.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/files/standard_streams.hpp"

namespace shardproof::launcher {
namespace {

/// A stream does not keep the reason of an error. The system call that failed does.
std::error_code last_error() { return {errno != 0 ? errno : EIO, std::generic_category()}; }

std::FILE* open_pipe(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  std::FILE* const pipe = descriptor < 0 ? nullptr : ::fdopen(descriptor, "w");
  if (pipe != nullptr) return pipe;
  if (errno == ENXIO)
    throw unusable_output(file, "no program reads from this pipe: start its reader first, or name a file");
  throw unusable_output(file, "open", last_error());
}

/// A signal ends the wait for a slow reader. It would not end the wait for the first reader, so that reader has to be
/// there.
void write_pipe(const std::filesystem::path& file, std::string_view text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(open_pipe(file), std::fclose);
  if (const std::error_code error = write_through(pipe.get(), text)) throw unusable_output(file, "write", error);
}

/// Added to the name of a file until the file is whole.
constexpr char unfinished_suffix[] = ".new";

/// Writes a new file and gives it the name of `target`. `named` is the name for errors.
void replace_file(const std::filesystem::path& target, const std::filesystem::path& named,
                  const std::function<void(std::ostream&)>& write) {
  const std::string fresh = target.string() + unfinished_suffix;
  errno = 0;
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  if (!out) throw unusable_output(named, "open", last_error());
  write(out);
  out.close();
  if (!out.fail() && ::rename(fresh.c_str(), target.c_str()) == 0) return;
  const std::error_code why = last_error();
  ::unlink(fresh.c_str());
  throw unusable_output(named, "write", why);
}

/// The folder of a file of a run directory, to write in.
base::FileDescriptor own_folder(const std::filesystem::path& file, int folders) {
  try {
    return base::open_evidence_folder(file, folders);
  } catch (const base::UnreadableFile& error) {
    throw unusable_output(file, error.why());
  }
}

/// A reader sees the old text or the new text. `mode`: which users may use the file.
void replace_own_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write, int folders,
                      mode_t mode) {
  const base::FileDescriptor folder = own_folder(file, folders);
  const std::string name = file.filename(), fresh = name + unfinished_suffix;
  ::unlinkat(folder.get(), fresh.c_str(), 0);
  const base::FileDescriptor made(
      ::openat(folder.get(), fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!made) throw unusable_output(file, "open", last_error());
  errno = 0;
  std::ofstream out(fmt::format("/proc/self/fd/{}", made.get()), std::ios::binary);
  write(out);
  out.close();
  if (!out.fail() && ::renameat(folder.get(), fresh.c_str(), folder.get(), name.c_str()) == 0) return;
  const std::error_code why = last_error();
  ::unlinkat(folder.get(), fresh.c_str(), 0);
  throw unusable_output(file, "write", why);
}

}  // namespace

CommandError unusable_output(const std::filesystem::path& path, const std::string& why) {
  return {usage, fmt::format("output unusable: {}: {}", path.string(), why)};
}

CommandError unusable_output(const std::filesystem::path& path, const char* operation, const std::error_code& why) {
  return {usage, fmt::format("output unusable: {} {}: {}", operation, path.string(), why.message())};
}

void make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw unusable_output(directory, "make directory", error);
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  write_file(file, [&](std::ostream& out) { out.write(text.data(), static_cast<std::streamsize>(text.size())); });
}

void write_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write) {
  std::error_code no_pipe;
  if (std::filesystem::is_fifo(file, no_pipe)) {
    std::ostringstream text;
    write(text);
    return write_pipe(file, text.view());
  }
  // Writes to a device or a pipe directly. Replaces a plain file by a complete new file.
  std::error_code unknown;  // if the path's status is unknown, opening it gives the reason
  const bool exists = std::filesystem::exists(file, unknown),
             is_plain = std::filesystem::is_regular_file(file, unknown);
  const bool replaces = !exists || is_plain;
  // a link to a file stays a link
  if (replaces) return replace_file(is_plain ? std::filesystem::canonical(file, unknown) : file, file, write);
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) throw unusable_output(file, "open", last_error());
  write(out);
  out.close();
  if (out.fail()) throw unusable_output(file, "write", last_error());
}

void write_own_file(const std::filesystem::path& file, std::string_view text, int folders) {
  write_own_file(
      file, [&](std::ostream& out) { out.write(text.data(), static_cast<std::streamsize>(text.size())); }, folders);
}

void write_own_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write, int folders) {
  replace_own_file(file, write, folders, 0666);
}

void write_secret(const std::filesystem::path& file, std::string_view text, int folders) {
  replace_own_file(
      file, [&](std::ostream& out) { out.write(text.data(), static_cast<std::streamsize>(text.size())); }, folders,
      0600);
}

std::string read_secret(const std::filesystem::path& file, int folders) {
  const base::FileDescriptor opened = base::open_evidence_file(file, folders);
  struct stat status{};
  if (::fstat(opened.get(), &status) != 0) throw base::UnreadableFile(file, last_error().message());
  if (const mode_t others = status.st_mode & (S_IRWXG | S_IRWXO); others != 0) {
    throw base::UnreadableFile(file, fmt::format("its mode is {:03o}, so it is no secret: other users must have no "
                                                 "right to it (mode 600); does this file system keep modes?",
                                                 status.st_mode & 0777U));
  }
  std::string text = whole_text(fmt::format("/proc/self/fd/{}", opened.get()));
  if (text.empty()) throw base::UnreadableFile(file, "it is empty");
  return text;
}

base::FileDescriptor append_to_own_file(const std::filesystem::path& file, int folders) {
  try {
    base::FileDescriptor opened(::openat(base::open_evidence_folder(file, folders).get(), file.filename().c_str(),
                                         O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                                         0666));
    struct stat status{};
    const bool is_file = opened && ::fstat(opened.get(), &status) == 0 && S_ISREG(status.st_mode);
    return is_file ? std::move(opened) : base::FileDescriptor();
  } catch (const base::UnreadableFile&) {
    return {};
  }
}

void refuse_link(const std::filesystem::path& file) {
  std::error_code unknown;
  if (std::filesystem::is_symlink(file, unknown))
    throw unusable_output(file, "it is a symbolic link, and shardproof writes no run through a link: remove it");
}

void append_file(const std::filesystem::path& file, std::string_view text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(file.c_str(), "ae"), std::fclose);
  if (!out) throw unusable_output(file, "open", last_error());
  if (const std::error_code error = write_through(out.get(), text)) throw unusable_output(file, "write", error);
}

base::FileDescriptor open_log(const std::filesystem::path& file) {
  base::FileDescriptor log = base::open_log_file(file);
  if (!log) throw unusable_output(file, "open", last_error());
  return log;
}

void require_new_file(const std::filesystem::path& file) {
  std::error_code unknown;
  const auto there = std::filesystem::status(file, unknown).type();
  if (there == std::filesystem::file_type::directory)
    throw unusable_output(file, "open", std::make_error_code(std::errc::is_a_directory));
  // A link to a missing file would be replaced.
  if (there == std::filesystem::file_type::regular ||
      (!std::filesystem::exists(file, unknown) && std::filesystem::is_symlink(file, unknown)))
    throw CommandError(
        usage, fmt::format("output unusable: {} already exists, and shardproof does not overwrite it: name a new file",
                           file.string()));
  if (std::filesystem::exists(file, unknown)) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  errno = 0;
  if (::access((folder / "").c_str(), W_OK | X_OK) != 0) throw unusable_output(file, "open", last_error());
}

void require_writable(const std::filesystem::path& directory) {
  const std::filesystem::path probe = directory / ".probe";
  write_own_file(probe, std::string(4096, ' '), 0);
  ::unlink(probe.c_str());
}

}  // namespace shardproof::launcher
