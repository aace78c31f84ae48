#include "launcher/run/running_ranks.hpp"

#include <optional>

#include "harness/protocol/flight_record.hpp"

namespace shardproof::launcher {

std::vector<int> running_ranks(const control::ControlPlane& page) {
  if (const std::optional<int> turn = page.turn()) return {*turn};
  const std::vector<protocol::FlightRecord> records = page.flight_records();
  const std::vector<protocol::PeerWait> waits = protocol::waits(records);
  std::vector<int> running;
  for (int rank = 0; rank < page.world_size(); ++rank) {
    if (!protocol::is_held_up(waits, rank)) running.push_back(rank);
  }
  return running;
}

}  // namespace shardproof::launcher
