// Fabric is what moves bytes between the ranks of a world, while the ranks join it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "harness/control/control_plane.hpp"
#include "harness/fabric/group.hpp"
#include "harness/rendezvous/file_store.hpp"

namespace shardproof::fabric {

/// What a fabric needs from a rank's world. The control plane must outlive all groups; the store must outlive only the
/// making of the fabric.
struct FabricContext {
  control::ControlPlane* control = nullptr;
  rendezvous::FileStore* store = nullptr;  ///< Where ranks find each other.
  std::filesystem::path directory;  ///< Private, on a memory file system where one exists.
  std::function<std::uint32_t()> epoch;  ///< Epoch of the running case; below 2^24.
  std::chrono::milliseconds timeout{30'000};  ///< For one wait; the fabric multiplies it by the ranks per core.
  /// The time at which a wait that begins now gives up. Empty: after `timeout`.
  std::function<control::Deadline(control::Deadline now)> give_up_at;
  int rank = 0;
  /// Report at once when every rank waits (see ControlPlane). Switch it off where a rank makes calls from several
  /// threads.
  bool detect_deadlock = true;
};

/// It is made in two steps, with room for other work between them. Where the ranks meet after the first step anyway, no
/// rank waits in the second. The constructor of an implementation is the first step. Keep the object until all ranks
/// have joined, which they must learn by other means.
class Fabric {
 public:
  Fabric() = default;
  virtual ~Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// Returns the world's group.
  virtual std::shared_ptr<Group> join() = 0;
};

using FabricMaker = std::function<std::unique_ptr<Fabric>(const FabricContext&)>;

}  // namespace shardproof::fabric
