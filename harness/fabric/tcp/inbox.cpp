#include "harness/fabric/tcp/inbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace shardproof::fabric::tcp {

namespace {

std::string too_long(std::size_t bytes, std::size_t room, int from, int tag) {
  return fmt::format("a message of rank {} with tag {} has {} bytes, its receive has room for {}", from, tag, bytes,
                     room);
}

}  // namespace

void Inbox::receive(std::span<std::byte> room, int from, int tag, std::uint64_t operation) {
  const auto lane = lanes_.try_emplace({from, tag}).first;
  open_.insert(operation);
  lane->second.receives.push_back({.room = room, .from = from, .tag = tag, .operation = operation});
  match(lane);
}

bool Inbox::is_over(std::uint64_t operation) const {
  if (!open_.contains(operation)) return true;
  if (const auto found = too_small_.find(operation); found != too_small_.end()) throw std::runtime_error(found->second);
  return false;
}

void Inbox::cancel(std::uint64_t operation) {
  for (auto& [from, arriving] : arriving_) {
    if (arriving.receive && arriving.receive->operation == operation) {
      arriving.receive->is_cancelled = true;
      return;
    }
  }
  open_.erase(operation);
  too_small_.erase(operation);
  const auto is_cancelled = [operation](const Receive& receive) { return receive.operation == operation; };
  for (auto lane = lanes_.begin(); lane != lanes_.end(); ++lane) {
    if (std::erase_if(lane->second.receives, is_cancelled) > 0) return match(lane);
  }
}

std::optional<messages::Arrival> Inbox::probe() const {
  for (const auto& [way, lane] : lanes_) {
    if (lane.messages.empty() || !lane.messages.front().is_whole) continue;
    return messages::Arrival{.from = way.first, .tag = way.second, .bytes = lane.messages.front().bytes.size()};
  }
  return std::nullopt;
}

std::span<std::byte> Inbox::begin(int from, int tag, std::size_t bytes) {
  const auto found = lanes_.try_emplace({from, tag}).first;
  Lane& lane = found->second;
  Arriving& arriving = arriving_[from];
  arriving = {.way = found->first, .receive = std::nullopt};
  if (lane.messages.empty() && !lane.receives.empty() && bytes <= lane.receives.front().room.size()) {
    arriving.receive = lane.receives.front();
    lane.receives.pop_front();
    match(found);
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
    const auto lane = lanes_.find(arriving.way);
    lane->second.messages.back().is_whole = true;
    match(lane);
  }
}

void Inbox::lose(int from) {
  const auto found = arriving_.find(from);
  if (found == arriving_.end()) return;
  const Arriving& arriving = found->second;
  if (!arriving.receive) {
    const auto lane = lanes_.find(arriving.way);
    lane->second.messages.pop_back();
    match(lane);
  } else if (arriving.receive->is_cancelled) {
    open_.erase(arriving.receive->operation);
  } else {
    lanes_[arriving.way].receives.push_front(*arriving.receive);
  }
  arriving_.erase(found);
}

void Inbox::match(Lanes::iterator lane) {
  auto& [messages, receives] = lane->second;
  while (!messages.empty() && messages.front().is_whole && !receives.empty()) {
    const std::vector<std::byte>& bytes = messages.front().bytes;
    const Receive& receive = receives.front();
    if (bytes.size() > receive.room.size()) {
      too_small_.try_emplace(receive.operation, too_long(bytes.size(), receive.room.size(), receive.from, receive.tag));
      return;
    }
    if (!bytes.empty()) std::memcpy(receive.room.data(), bytes.data(), bytes.size());
    open_.erase(receive.operation);
    messages.pop_front();
    receives.pop_front();
  }
  if (messages.empty() && receives.empty()) lanes_.erase(lane);
}

}  // namespace shardproof::fabric::tcp
