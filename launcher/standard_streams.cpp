#include "launcher/standard_streams.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "launcher/launcher.hpp"
#include "reports/terminal.hpp"

namespace shardproof::launcher {

std::error_code write_through(std::FILE* out, std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  if (written || errno == EPIPE) return {};
  return {errno != 0 ? errno : EIO, std::generic_category()};
}

void say(std::string_view text) { require_said(write_through(stdout, text)); }

void require_said(const std::error_code& error) {
  if (error) throw CommandError(usage, fmt::format("output unusable: write to standard output: {}", error.message()));
}

void complain(std::string_view text) { write_through(stderr, fmt::format("shardproof: {}\n", reports::printable(text))); }

}  // namespace shardproof::launcher
