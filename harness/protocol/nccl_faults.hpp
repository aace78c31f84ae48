// Faults in an engine's NCCL calls: the list that requests them, and their effect on one call. Pure: the tap applies
// the effects.
//
//   list     `fault; fault; …`  A line break separates faults, too. Empty faults are skipped.
//   fault    `delay CALLS DURATION`  Waits on the host before the call: `20ms`. Units are ns, us, ms, s.
//            `stall CALLS DURATION`  Makes the call's stream wait on the device before the call.
//            `drop CALLS`            Never passes the call on. The engine gets ncclSuccess.
//            `fail CALLS STATUS`     Never passes the call on. The engine gets STATUS, by NCCL's name for it.
//            `swap CALLS`            Keeps the call back until the next call on its communicator was passed on.
//   CALLS    `kind`     Every call of a kind (`all_reduce`).
//            `kind#N`   The call of a kind with that number in this process, from 0.
//   suffix   `on comm K`   Only calls on communicator K (by order of creation in the process). N counts them.
//            `rank R`      Only in the process of that rank of the world.
//
// Example of a list:
//
//
//   delay all_reduce#3 20ms; fail reduce_scatter#0 ncclSystemError on comm 1; drop broadcast#2 rank 0; swap
//   all_gather#1
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/nccl_calls.hpp"

namespace shardproof::protocol {

struct CallFault {
  enum class Action : std::uint8_t { delay, stall, drop, fail, swap };

  Action action = Action::delay;
  CallKind kind = CallKind::all_gather;
  std::optional<std::uint64_t> number;  ///< none: every call
  std::optional<int> comm, rank;
  std::chrono::nanoseconds duration{0};  ///< of a delay or a stall
  Result status = Result::success;
};

/// Throws std::invalid_argument, which names the fault, its error and the correct form.
std::vector<CallFault> parse_faults(std::string_view list);

/// The position of a call among the calls of its process.
struct CallPlace {
  CallKind kind = CallKind::all_gather;
  std::uint64_t of_kind = 0, of_kind_on_comm = 0;  ///< earlier calls of its kind: in the process, on its communicator
  int comm = -1;
  std::optional<int> rank;  ///< The process's rank in its world. Without one, its rank in the communicator.
};

/// All delays and all stalls that apply, and the first fault of another kind.
struct FaultDecision {
  std::chrono::nanoseconds delay{0}, stall{0};
  const CallFault* fault = nullptr;  ///< points into the list
};

FaultDecision decide(std::span<const CallFault> faults, const CallPlace& place);

}  // namespace shardproof::protocol
