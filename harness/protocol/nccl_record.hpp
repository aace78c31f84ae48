// The tap's record: a mapped file per process with its last NCCL calls and its communicators. Writing it costs no
// system call, and it survives the process, however the process ends. The reader does not trust the bytes. A damaged
// file is an error, never a crash, and never a call that the process did not make.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/nccl_calls.hpp"
#include "harness/protocol/nccl_record_slot.hpp"

namespace shardproof::protocol {

/// A communicator of this process. Two ranks of one communicator in one process are two entries.
struct Communicator {
  enum class State : std::uint8_t { coming, alive, failed, ended };

  int id = 0;  ///< In the order of the calls that make communicators.
  std::optional<CallKind> origin;  ///< The call that made it. None: it existed before the tap.
  State state = State::coming;
  int size = -1, rank = -1;  ///< -1: not known.
  int parent = -1;  ///< Id of the parent, for the result of a split or shrink.
  /// Equal on all ranks of the communicator, in any process, and different for any other communicator. 0: not known.
  std::uint64_t key = 0;
  std::uint64_t handle = 0;  ///< Its address.
  std::string name;  ///< Name from the engine's configuration, cut to 63 bytes.
};

std::string_view to_string(Communicator::State state);

/// The process and its fault list.
struct TapProcess {
  std::int64_t pid = 0;
  std::optional<int> rank;  ///< Its rank in its world, if its environment holds one.
  std::int64_t started_ns = 0;  ///< CLOCK_MONOTONIC
  std::string faults;  ///< The process's fault list, cut to 500 bytes.
};

/// The NCCL that received the calls.
struct TapLibrary {
  int version = 0;  ///< 22809 for 2.28.9; 0: no NCCL was found
  std::string path;  ///< cut to 240 bytes
};

struct TapRecord {
  TapProcess process;
  TapLibrary library;
  std::vector<Communicator> communicators;  ///< Sorted by id. The first one and the last ones are kept.
  std::vector<Call> calls;  ///< The last ones, sorted by number.
  std::uint64_t begun = 0;  ///< Number of calls that were ever begun.
  std::uint64_t missing = 0;  ///< Number of the last calls that the process had not written yet.

  const Communicator* find(int id) const;
};

class RecordError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws RecordError. It can read a record at any time, also while the process writes it.
TapRecord read_tap(const std::filesystem::path& file);
/// Reads the bytes of a file. Messages contain `name`.
TapRecord read_tap(std::span<const std::byte> bytes, const std::string& name);

/// Mapped memory; the destructor unmaps it.
class Mapping {
 public:
  Mapping(std::byte* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  std::byte* get() const { return memory_; }

 private:
  std::byte* memory_;
  std::size_t bytes_;
};

/// The writer's side of a record. Any thread may call its members, but two threads must not write the same communicator
/// at the same time.
class TapWriter {
 public:
  struct Room {
    std::uint32_t calls = 4096, communicators = 512;  ///< at least 1 call and 2 communicators
  };

  /// Makes the file `nccl-PID.tap` in the directory `where`, or else the file `where` itself. It never touches an
  /// existing file: then the new name ends in `.PID` or in a number. Throws std::system_error.
  TapWriter(std::filesystem::path where, const TapProcess& process, Room room);
  TapWriter(std::filesystem::path where, const TapProcess& process) : TapWriter(std::move(where), process, Room{}) {}

  const std::filesystem::path& file() const { return file_; }

  /// Gives the call its number.
  void enter(Call& call);
  /// Writes the current state of the call again, if the call is still among the last ones.
  void update(const Call& call);

  void write(const Communicator& communicator);
  void write(const TapLibrary& library);

 private:
  std::filesystem::path file_;
  Room room_;
  Mapping memory_;
};

}  // namespace shardproof::protocol
