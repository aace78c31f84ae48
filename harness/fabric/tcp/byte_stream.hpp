// ByteStream is a connected socket that never blocks, with a buffer for short reads. It has no limit for the time in
// which the other side reads nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/link/connection.hpp"

namespace shardproof::fabric::tcp {

class ByteStream {
 public:
  /// Goes on where the connection stopped.
  explicit ByteStream(control::link::Connection::Raw raw);

  int descriptor() const { return socket_.get(); }
  /// Reads up to as many bytes as `room` has. 0: no byte is there now, or the stream is broken. Bytes that came before
  /// a write found the end of the connection are still read.
  std::size_t read(std::span<std::byte> room);
  /// Writes both spans, one after the other, as far as the socket takes them now. Returns the number of bytes. First
  /// it writes the bytes that the connection has not sent.
  std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second);
  bool has_unsent() const { return !unsent_.empty(); }
  /// False: a write has failed. Reads go on to the end of the stream.
  bool takes_bytes() const { return broken_.empty() && write_error_.empty(); }
  /// Why no more bytes come. Empty: they do.
  const std::string& broken() const { return broken_; }

 private:
  static constexpr std::size_t buffer_bytes = 64U << 10;

  std::size_t receive(std::byte* to, std::size_t most);

  base::FileDescriptor socket_;
  std::string buffer_;
  std::size_t taken_ = 0;  ///< of the buffer
  std::string unsent_;
  std::string write_error_, broken_;
};

}  // namespace shardproof::fabric::tcp
