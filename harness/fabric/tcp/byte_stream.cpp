#include "harness/fabric/tcp/byte_stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace shardproof::fabric::tcp {

namespace {

iovec vector_of(const void* bytes, std::size_t count) {
  return {.iov_base = const_cast<void*>(bytes), .iov_len = count};
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

ByteStream::ByteStream(control::link::Connection::Raw raw)
    : socket_(std::move(raw.socket)), buffer_(std::move(raw.received)), unsent_(std::move(raw.unsent)) {
  // Connection has set a limit. The kernel would apply it to a rank that reads nothing because it computes, or because
  // a debugger stops it.
  const int no_limit = 0;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &no_limit, sizeof no_limit);
}

std::size_t ByteStream::read(std::span<std::byte> room) {
  if (taken_ == buffer_.size()) {
    if (room.size() >= buffer_bytes) return receive(room.data(), room.size());
    buffer_.resize(buffer_bytes);
    buffer_.resize(receive(reinterpret_cast<std::byte*>(buffer_.data()), buffer_bytes));
    taken_ = 0;
  }
  const std::size_t count = std::min(room.size(), buffer_.size() - taken_);
  std::memcpy(room.data(), buffer_.data() + taken_, count);
  taken_ += count;
  return count;
}

std::size_t ByteStream::receive(std::byte* to, std::size_t most) {
  while (broken_.empty()) {
    const ssize_t count = ::recv(socket_.get(), to, most, 0);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count < 0 && would_block(errno)) return 0;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      broken_ = std::generic_category().message(errno);
    } else {
      broken_ = write_error_.empty() ? "its end of the connection is closed" : write_error_;
    }
  }
  return 0;
}

std::size_t ByteStream::write(std::span<const std::byte> first, std::span<const std::byte> second) {
  std::size_t written = 0;
  while (takes_bytes() && (has_unsent() || written < first.size() + second.size())) {
    const std::size_t of_first = std::min(written, first.size());
    const std::span<const std::byte> rest = second.subspan(written - of_first);
    std::array<iovec, 3> parts{vector_of(unsent_.data(), unsent_.size()),
                               vector_of(first.data() + of_first, first.size() - of_first),
                               vector_of(rest.data(), rest.size())};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (count >= 0) {
      const std::size_t before = std::min(static_cast<std::size_t>(count), unsent_.size());
      unsent_.erase(0, before);
      written += static_cast<std::size_t>(count) - before;
    } else if (would_block(errno)) {
      return written;
    } else if (errno != EINTR) {
      write_error_ = std::generic_category().message(errno);
    }
  }
  return written;
}

}  // namespace shardproof::fabric::tcp
