#include "launcher/files/standard_streams.hpp"

#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "launcher/launcher.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {

std::error_code write_ready(std::FILE* out, std::string_view& text) {
  std::fflush(out);
  while (!text.empty()) {
    pollfd room{.fd = fileno(out), .events = POLLOUT, .revents = 0};
    if (::poll(&room, 1, 0) <= 0) return {};
    // A pipe with room takes this many bytes without blocking.
    const ssize_t written = ::write(room.fd, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EINTR || errno == EAGAIN) {
      return {};
    } else {
      text = {};
      return errno == EPIPE ? std::error_code() : std::error_code(errno, std::generic_category());
    }
  }
  return {};
}

std::error_code write_through(std::FILE* out, std::string_view text) {
  for (;;) {
    const std::error_code error = write_ready(out, text);
    if (error || text.empty()) return error;
    sigset_t nothing;
    sigemptyset(&nothing);
    pollfd room{.fd = fileno(out), .events = POLLOUT, .revents = 0};
    ::ppoll(&room, 1, nullptr, &nothing);
  }
}

void print_output(std::string_view text) { require_printed(write_through(stdout, reports::screened(text))); }

void require_printed(const std::error_code& error) {
  if (error) throw CommandError(usage, fmt::format("output unusable: write to standard output: {}", error.message()));
}

void print_error(std::string_view text) {
  write_through(stderr, fmt::format("shardproof: {}\n", reports::printable(text)));
}

}  // namespace shardproof::launcher
