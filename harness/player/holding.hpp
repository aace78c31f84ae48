// Can this run while that is held back? A platform on which one piece of a scenario is held, and that sees whether another one passes. Where
// streams can be held (Platform::gate) it is proven by doing so; everywhere the recorded order says whether anything orders the two.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/player/run.hpp"
#include "harness/trace/pieces.hpp"

namespace shardproof::scenario {

struct Hold {
  trace::Piece held, passes;
};

/// The outcome of a hold.
struct Passage {
  /// Nothing that was recorded makes the one wait for the other (trace::can_pass).
  bool is_free = false;
  /// Played once more, the one has ended while the other was held by a closed gate. None where nothing can be held, and where something makes
  /// the one wait anyway.
  std::optional<bool> has_passed;
};

struct HeldRun {
  Run run;  ///< without a gate
  std::vector<Passage> passages;  ///< one for each hold
};

/// The platform as an engine sees it while a piece is held: it is held from the moment it is issued until the host is about to wait for something
/// that stands behind it. Before that the host waits for the piece that is to pass, and then opens the gate.
class HeldPlatform final : public Platform {
 public:
  /// `inner` must outlive it.
  HeldPlatform(Platform& inner, Hold hold);
  ~HeldPlatform() override;

  Device& device() override;
  Communicator& world() override;
  std::unique_ptr<StreamGate> gate() override { return inner_.gate(); }
  Recording take_recording() override { return inner_.take_recording(); }
  std::size_t live_bytes() const override { return inner_.live_bytes(); }

  /// Whether this platform can hold a piece back.
  bool has_gate() const;
  /// See Passage.
  std::optional<bool> has_passed() const;

 private:
  class Watch;
  class HeldDevice;
  class HeldCommunicator;

  Platform& inner_;
  std::shared_ptr<Watch> watch_;
  std::unique_ptr<HeldDevice> device_;
  std::unique_ptr<HeldCommunicator> world_;
};

}  // namespace shardproof::scenario
