// What an engine may claim, by name: all of a subject that declaring a case needs to know.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardproof {

/// Not claimed: the cases that need it are skipped with that reason. Claimed and absent: they fail.
enum class Feature : std::uint8_t {
  timeline,          ///< runs on the simulated device, so that its times are exact
  fully_shard,
  post_optim_event,
  serial,            ///< can run with everything on one stream
};

std::string_view to_string(Feature feature);

}  // namespace shardproof
