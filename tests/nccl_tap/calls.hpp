// Calls and records for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::nccl_tap::testing {

/// A collective of f32 on a communicator. Its other fields depend on its place.
inline protocol::Call collective(protocol::CallKind kind, int comm, std::int64_t place, std::uint64_t count = 4) {
  protocol::Call call;
  call.kind = kind;
  call.of_kind = static_cast<std::uint64_t>(place);
  call.place = place;
  call.count = count;
  call.comm = comm;
  call.dtype = protocol::ElementType::f32;
  call.stream = 0x1000;
  call.stream_index = 0;
  call.entered_ns = 100 + place;
  call.left_ns = 200 + place;
  return call;
}

inline protocol::Call message(protocol::CallKind kind, int comm, std::int64_t place, int peer,
                              std::uint64_t count = 4) {
  protocol::Call call = collective(kind, comm, place, count);
  call.root = peer;
  return call;
}

/// The record of a rank of one communicator, id 0.
inline protocol::TapRecord record_of(int rank, std::vector<protocol::Call> calls, int size = 2, std::uint64_t key = 7) {
  protocol::TapRecord record;
  record.process = {.pid = 100 + rank, .rank = rank, .started_ns = 1, .faults = {}};
  protocol::Communicator world;
  world.id = 0;
  world.origin = protocol::CallKind::comm_init_rank;
  world.state = protocol::Communicator::State::alive;
  world.size = size;
  world.rank = rank;
  world.key = key;
  record.communicators.push_back(world);
  record.calls = std::move(calls);
  for (std::size_t number = 0; number < record.calls.size(); ++number) record.calls[number].number = number;
  record.begun = record.calls.size();
  return record;
}

}  // namespace shardproof::nccl_tap::testing
