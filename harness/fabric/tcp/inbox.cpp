#include "harness/fabric/tcp/inbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace shardproof::fabric::tcp {

namespace {

void require_room(std::size_t room, std::size_t bytes, int from, int tag) {
  if (bytes > room)
    throw std::runtime_error(fmt::format("a message of rank {} with tag {} has {} bytes, its receive has room for {}",
                                         from, tag, bytes, room));
}

}  // namespace

void Inbox::receive(std::span<std::byte> room, int from, int tag, std::uint64_t operation) {
  Lane& lane = lanes_[{from, tag}];
  if (!lane.messages.empty()) require_room(room.size(), lane.messages.front().bytes.size(), from, tag);
  open_.insert(operation);
  lane.receives.push_back({.room = room, .operation = operation});
  match(lane);
}

void Inbox::cancel(std::uint64_t operation) {
  for (auto& [from, arriving] : arriving_) {
    if (arriving.receive && arriving.receive->operation == operation) {
      arriving.receive->is_cancelled = true;
      return;
    }
  }
  for (auto& [way, lane] : lanes_)
    std::erase_if(lane.receives, [operation](const Receive& receive) { return receive.operation == operation; });
  open_.erase(operation);
}

std::optional<messages::Arrival> Inbox::probe() const {
  for (const auto& [way, lane] : lanes_) {
    if (lane.messages.empty() || !lane.messages.front().is_whole) continue;
    return messages::Arrival{.from = way.first, .tag = way.second, .bytes = lane.messages.front().bytes.size()};
  }
  return std::nullopt;
}

std::span<std::byte> Inbox::begin(int from, int tag, std::size_t bytes) {
  Lane& lane = lanes_[{from, tag}];
  Arriving& arriving = arriving_[from];
  arriving = {.lane = &lane, .receive = std::nullopt, .bytes = bytes};
  if (lane.messages.empty() && !lane.receives.empty()) {
    require_room(lane.receives.front().room.size(), bytes, from, tag);
    arriving.receive = lane.receives.front();
    lane.receives.pop_front();
    return arriving.receive->room.first(bytes);
  }
  return lane.messages.emplace_back(Message{.bytes = std::vector<std::byte>(bytes)}).bytes;
}

void Inbox::end(int from) {
  const auto found = arriving_.find(from);
  const Arriving arriving = found->second;
  arriving_.erase(found);
  if (arriving.receive) {
    open_.erase(arriving.receive->operation);
  } else {
    arriving.lane->messages.back().is_whole = true;
    match(*arriving.lane);
  }
}

void Inbox::lose(int from) {
  const auto found = arriving_.find(from);
  if (found == arriving_.end()) return;
  const Arriving& arriving = found->second;
  if (!arriving.receive) {
    arriving.lane->messages.pop_back();
  } else if (arriving.receive->is_cancelled) {
    open_.erase(arriving.receive->operation);
  } else {
    arriving.lane->receives.push_front(*arriving.receive);
  }
  arriving_.erase(found);
}

void Inbox::match(Lane& lane) {
  while (!lane.messages.empty() && lane.messages.front().is_whole && !lane.receives.empty()) {
    const std::vector<std::byte>& bytes = lane.messages.front().bytes;
    if (!bytes.empty()) std::memcpy(lane.receives.front().room.data(), bytes.data(), bytes.size());
    open_.erase(lane.receives.front().operation);
    lane.messages.pop_front();
    lane.receives.pop_front();
  }
}

}  // namespace shardproof::fabric::tcp
