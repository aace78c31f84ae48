// A platform that tests whether one piece of a scenario can run while another piece is held. If the platform can hold
// streams (Platform::gate), the test holds one. On every platform, the recorded order shows whether anything orders the
// two pieces.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/player/run.hpp"
#include "harness/trace/pieces.hpp"

namespace shardproof::player {

struct Hold {
  trace::Piece held, passes;
};

/// The outcome of a hold.
struct Passage {
  /// No recorded fact makes `passes` wait for `held` (trace::can_pass).
  bool is_free = false;
  /// In a second play, `passes` ended while a closed gate held `held`. Empty if the platform cannot hold a piece, or if
  /// a recorded fact makes `passes` wait anyway.
  std::optional<bool> has_passed;
};

struct HeldRun {
  Run run;  ///< without a gate
  std::vector<Passage> passages;  ///< one for each hold
};

/// The platform as an engine sees it while a piece is held. The gate holds the piece from its issue until the host is
/// about to wait for work that is ordered after the piece. Then the host first waits for the piece that should pass,
/// and opens the gate.
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

}  // namespace shardproof::player
