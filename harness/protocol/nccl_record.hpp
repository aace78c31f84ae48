// What the tap leaves behind: a mapped file per process with its last calls of NCCL and its communicators. It costs no system call to write, and
// survives the process however that ends. The reader takes it for what it is, bytes from outside: a damaged file is an error, never a crash, and
// never a call that nobody made.
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

namespace shardproof::nccl_tap {

/// A communicator of this process. Two ranks of one communicator in one process are two of them.
struct Communicator {
  enum class State : std::uint8_t { coming, alive, failed, ended };

  int id = 0;  ///< by order of the calls that were to make it
  std::optional<CallKind> origin;  ///< the call that made it; none: it was there before the tap
  State state = State::coming;
  int size = -1, rank = -1;  ///< -1: not known
  int parent = -1;  ///< id, of what a split or shrink made
  std::uint64_t key = 0;  ///< equal on all its ranks and on no other communicator's, whatever process they are in; 0: nobody knows
  std::uint64_t handle = 0;  ///< its address
  std::string name;  ///< that the engine gave it in its configuration, cut to 63 bytes
};

std::string_view to_string(Communicator::State state);

/// The process, and what it was asked to do.
struct TapProcess {
  std::int64_t pid = 0;
  std::optional<int> rank;  ///< in its world, where its environment tells
  std::int64_t started_ns = 0;  ///< CLOCK_MONOTONIC
  std::string faults;  ///< the list that it was given, cut to 500 bytes
};

/// The NCCL that its calls went to.
struct TapLibrary {
  int version = 0;  ///< 22809 for 2.28.9; 0: none has been found
  std::string path;  ///< cut to 240 bytes
};

struct TapRecord {
  TapProcess process;
  TapLibrary library;
  std::vector<Communicator> communicators;  ///< by id; the first, and the last ones
  std::vector<Call> calls;  ///< the last ones, by number
  std::uint64_t begun = 0;  ///< calls, ever
  std::uint64_t missing = 0;  ///< among the last ones, those that the process was about to write down

  const Communicator* find(int id) const;
};

class RecordError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws RecordError. A record that its process is writing at this moment can be read at any time.
TapRecord read_tap(const std::filesystem::path& file);
/// Of a file's bytes; `name` is for the message.
TapRecord read_tap(std::span<const std::byte> bytes, const std::string& name);

/// Mapped memory, until the end of the object.
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

/// The writer's side. Its members may be called from any thread, writing one communicator excepted.
class TapWriter {
 public:
  struct Room {
    std::uint32_t calls = 4096, communicators = 512;  ///< at least one, and two
  };

  /// In the directory `where` a file `nccl-PID.tap`, else the file `where` itself. No file that is there already is touched: then its name is
  /// followed by `.PID`, or by a number. Throws std::system_error.
  TapWriter(std::filesystem::path where, const TapProcess& process, Room room);
  TapWriter(std::filesystem::path where, const TapProcess& process) : TapWriter(std::move(where), process, Room{}) {}

  const std::filesystem::path& file() const { return file_; }

  /// Gives the call its number.
  void enter(Call& call);
  /// Writes again what is known of it now, if it is still among the last ones.
  void update(const Call& call);

  void write(const Communicator& communicator);
  void write(const TapLibrary& library);

 private:
  std::filesystem::path file_;
  Room room_;
  Mapping memory_;
};

}  // namespace shardproof::nccl_tap
