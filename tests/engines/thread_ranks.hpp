// Ranks as threads of this process, each with its group of the world.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"

namespace shardproof {

/// Runs `body(rank, group)` on every rank at once. After all ranks have ended, rethrows the first exception of any
/// rank.
inline void on_thread_ranks(int world, const std::function<void(int rank, Group& group)>& body) {
  control::ControlPage control = control::ControlPage::anonymous(world);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  std::vector<std::exception_ptr> thrown(groups.size());
  {
    std::vector<std::jthread> ranks;
    ranks.reserve(groups.size());
    for (int rank = 0; rank < world; ++rank) {
      ranks.emplace_back([&, rank] {
        const auto index = static_cast<std::size_t>(rank);
        try {
          body(rank, *groups[index]);
        } catch (const std::exception& error) {
          thrown[index] = std::current_exception();
          control.raise_abort(1, {rank, control::AbortReason::error, error.what()});
        }
      });
    }
  }
  for (const std::exception_ptr& error : thrown) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace shardproof
