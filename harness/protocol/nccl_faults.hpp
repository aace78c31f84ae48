// Faults in an engine's NCCL calls: the list in which somebody asks for them, and what they make of one call. Pure: the tap carries it out.
//
//   list     fault; fault; …                    a line break separates as well, empty ones are skipped
//   fault    delay CALLS DURATION               waits on the host before the call: `20ms`; units ns, us, ms, s
//            stall CALLS DURATION               lets its stream wait on the device, in front of the call
//            drop  CALLS                        never passes the call on, and tells the engine ncclSuccess
//            fail  CALLS STATUS                 never passes the call on, and tells the engine STATUS, by NCCL's name for it
//            swap  CALLS                        keeps the call back until the next one on its communicator was passed on
//   CALLS    kind, or kind#N: every call of a kind (`all_reduce`), or the one with that number, from 0, in this process
//   behind   on comm K   calls on that communicator only (by order of creation in this process); # counts those on it then
//            rank R      in the process of that rank of the world only
//
//   delay all_reduce#3 20ms; fail reduce_scatter#0 ncclSystemError on comm 1; drop broadcast#2 rank 0; swap all_gather#1
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/nccl_calls.hpp"

namespace shardproof::nccl_tap {

struct CallFault {
  enum class Action : std::uint8_t { delay, stall, drop, fail, swap };

  Action action = Action::delay;
  CallKind kind = CallKind::all_gather;
  std::optional<std::uint64_t> number;  ///< none: every call
  std::optional<int> comm, rank;
  std::chrono::nanoseconds duration{0};  ///< of a delay or a stall
  Result status = Result::success;
};

/// Throws std::invalid_argument that names the fault, what is wrong with it, and what would be right.
std::vector<CallFault> parse_faults(std::string_view list);

/// Where a call stands.
struct CallPlace {
  CallKind kind = CallKind::all_gather;
  std::uint64_t of_kind = 0, of_kind_on_comm = 0;  ///< calls of its kind before it: in the process, on its communicator
  int comm = -1;
  std::optional<int> rank;  ///< of the process in its world, or where nobody told it, of the communicator
};

/// All delays and all stalls that apply, and the first fault of another kind.
struct FaultDecision {
  std::chrono::nanoseconds delay{0}, stall{0};
  const CallFault* fault = nullptr;  ///< belongs to the list
};

FaultDecision decide(std::span<const CallFault> faults, const CallPlace& place);

}  // namespace shardproof::nccl_tap
