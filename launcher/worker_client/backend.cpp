#include "launcher/worker_client/backend.hpp"

#include <fmt/format.h>

#include <system_error>

#include "launcher/launcher.hpp"
#include "launcher/process/home.hpp"

namespace shardproof::launcher {
namespace {

/// A special file, such as a pipe, would block the worker that opens it.
bool is_ordinary(const std::filesystem::path& file) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(file, unknown);
}

}  // namespace

std::filesystem::path built_backend() { return launcher_home() / "lib/shardproof/libshardproof_cuda.so"; }

std::filesystem::path named_backend(const std::filesystem::path& requested) {
  std::filesystem::path file = std::filesystem::absolute(requested);
  if (!is_ordinary(file))
    throw CommandError(usage, fmt::format("--backend {}: no regular file is at this path", file.string()));
  return file;
}

}  // namespace shardproof::launcher
