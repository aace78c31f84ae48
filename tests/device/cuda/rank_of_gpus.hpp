// One rank of a world of GPUs that are threads of this process, in a world of tests/fabric/worlds.hpp.
#pragma once

#include <chrono>
#include <memory>

#include "harness/device/cuda/cuda_world.hpp"
#include "harness/fabric/boards.hpp"
#include "tests/fabric/worlds.hpp"

namespace shardproof::device::cuda {

struct RankOfGpus {
  RankOfGpus(testing::Side& side, const VendorTables& vendor, std::shared_ptr<fabric::Boards> boards,
             std::chrono::milliseconds time_limit = std::chrono::seconds(20),
             std::chrono::milliseconds for_abort = std::chrono::seconds(5), bool keeps_records = false)
      : world(vendor,
              {.rank = side.rank,
               .ordinal = side.rank,
               .check = [&side] { side.control.check(side.epoch.load()); },
               .give_up_at = [time_limit](control::Deadline now) { return now + time_limit; },
               .for_abort = for_abort,
               .keeps_records = keeps_records},
              side.world, std::move(boards)) {}

  CudaWorld world;
};

}  // namespace shardproof::device::cuda
