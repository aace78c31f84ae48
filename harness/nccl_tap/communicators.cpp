#include "harness/nccl_tap/communicators.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/digest.hpp"

namespace shardproof::nccl_tap {

using protocol::CallKind;
using protocol::Communicator;

std::uint64_t key_of_unique_id(std::string_view bytes) { return std::max<std::uint64_t>(1, base::digest(bytes)); }

Communicator& Communicators::create(CallKind origin) {
  Communicator& made = all_.emplace_back().shown;
  made.id = static_cast<int>(all_.size()) - 1;
  made.origin = origin;
  return made;
}

std::uint64_t Communicators::key_of_part(int parent, int color) {
  if (parent < 0) return 0;
  Entry& entry = all_[static_cast<std::size_t>(parent)];
  const std::uint64_t part = entry.parts++;
  if (entry.shown.key == 0) return 0;
  return std::max<std::uint64_t>(1, base::digest(fmt::format("part {} color {}", part, color), entry.shown.key));
}

void Communicators::bind(int id, std::uint64_t handle) {
  const auto [place, is_new] = by_handle_.insert({handle, id});
  if (!is_new && place->second != id) {
    (*this)[place->second].state = Communicator::State::ended;
    place->second = id;
  }
  (*this)[id].handle = handle;
}

Communicator* Communicators::at(std::uint64_t handle) {
  if (handle == 0) return nullptr;
  const auto found = by_handle_.find(handle);
  if (found != by_handle_.end()) return &(*this)[found->second];
  Communicator& unknown = all_.emplace_back().shown;
  unknown.id = static_cast<int>(all_.size()) - 1;
  unknown.state = Communicator::State::alive;
  bind(unknown.id, handle);
  return &unknown;
}

void Communicators::end(int id) {
  Communicator& ended = (*this)[id];
  ended.state = Communicator::State::ended;
  const auto found = by_handle_.find(ended.handle);
  if (found != by_handle_.end() && found->second == id) by_handle_.erase(found);
}

std::uint64_t Communicators::next_of_kind(int id, CallKind kind) {
  return counts(id).of_kind[static_cast<std::size_t>(kind)]++;
}

std::int64_t Communicators::next_place(int id, CallKind kind, int peer) {
  Counts& of_communicator = counts(id);
  if (kind == CallKind::send) return of_communicator.sends[peer]++;
  if (kind == CallKind::recv) return of_communicator.receives[peer]++;
  return of_communicator.collectives++;
}

}  // namespace shardproof::nccl_tap
