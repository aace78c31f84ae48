// ByteStream is a connected socket that never blocks, with a buffer for short reads. The other side may read nothing
// for any time.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/link/connection.hpp"

namespace shardproof::fabric::tcp {

class ByteStream {
 public:
  /// Continues with the bytes that the connection has received, and with those that it has not sent.
  explicit ByteStream(control::link::Connection::Raw raw);

  int descriptor() const { return socket_.get(); }
  /// Reads at most as many bytes as `room` has. 0: no byte is there now, or the stream is broken. After a write has
  /// failed, it still reads the bytes that came before.
  std::size_t read(std::span<std::byte> room);
  /// Writes the unsent bytes of the connection, then both spans, as far as the socket takes them now. Returns how many
  /// bytes of the spans it has written.
  std::size_t write(std::span<const std::byte> first, std::span<const std::byte> second);
  bool has_unsent() const { return !unsent_.empty(); }
  /// False: a write has failed. Reads go on to the end of the stream.
  bool takes_bytes() const { return broken_.empty() && write_error_.empty(); }
  /// Why no more bytes come. Empty: more may come.
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
