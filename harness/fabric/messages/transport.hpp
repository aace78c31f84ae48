// Transport carries messages of bytes between the ranks of a world. No function waits for another rank. There are
// implementations by an MPI library (mpi/mpi_library.hpp) and over TCP (tcp/tcp_transport.hpp). Tests have one for
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardproof::fabric::messages {

/// A send or a receive that was begun and is not over.
struct Operation {
  std::uint64_t value = 0;
};

/// A message that has arrived and that no receive has asked for.
struct Arrival {
  int from = 0, tag = 0;
  std::size_t bytes = 0;
};

/// Messages from one rank to another with the same tag are received in the order in which they were sent. Each function
/// may throw std::runtime_error with the library's own words.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual std::string_view name() const = 0;  ///< `Open MPI 4.1.4`
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int greatest_tag() const = 0;  ///< at least 32767

  /// The bytes must stay as they are until the operation is over.
  virtual Operation send(std::span<const std::byte> bytes, int to, int tag) = 0;
  /// The message may be shorter than `room`. The room must exist until the operation is over.
  virtual Operation receive(std::span<std::byte> room, int from, int tag) = 0;
  /// True when the operation is over. Then the caller drops it.
  virtual bool test(Operation& operation) = 0;
  /// Asks a receive to end without a message. It is over when `test` says so: a message may be arriving just now.
  virtual void cancel(Operation& receive) = 0;
  virtual std::optional<Arrival> probe() = 0;

  /// True if no open operation with this rank will ever end.
  virtual bool is_lost(int) const { return false; }
  /// True if this process has found no way to this rank. Each call with that rank ends at its deadline.
  virtual bool is_out_of_reach(int) const { return false; }
  /// Why messages from this rank or to it do not arrive, for error texts. Empty: the transport knows no reason.
  virtual std::string trouble(int) const { return {}; }

  // The end: exactly one of the two.

  /// All ranks call it, when no operation of any rank is left. It is the only function that may wait for them.
  virtual void finish() = 0;
  /// Ends with operations that are not over. The memory in which they read and write must exist as long as they do.
  virtual void abandon(std::shared_ptr<void> memory) = 0;
};

}  // namespace shardproof::fabric::messages
