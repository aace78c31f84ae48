// The fabric of ranks on one machine: mailboxes in a shared mapping, reductions in rank order, survives aborts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "harness/fabric/group.hpp"
#include "harness/protocol/control_page.hpp"
#include "harness/rendezvous/file_store.hpp"

namespace shardproof {

/// What a group needs to know about the world around it.
struct ShmContext {
  ControlPage* control = nullptr;
  FileStore* store = nullptr;               ///< where groups find each other's mapping
  std::filesystem::path directory;          ///< private, on a memory file system where there is one
  std::function<std::uint32_t()> epoch;     ///< of the case now running
  std::chrono::milliseconds timeout{30'000};///< of one call; the fabric stretches it by ranks per core
  int rank = 0;
};

/// Collective over the world: maps the mailboxes of all its ranks.
std::shared_ptr<Group> make_shm_world(const ShmContext& context);

}  // namespace shardproof
