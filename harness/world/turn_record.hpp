// Records which rank had the turn, and when. The control page has the current turn, for a diagnosis after a crash. A
// file has all turns, and distinguishes one interleaving from another.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/world/seeded_scheduler.hpp"

namespace shardproof::world {

class TurnRecord final : public TurnObserver {
 public:
  /// Makes the file (WorldDirectory::turns). Its first line has the turns before the first case; each case adds a line.
  /// Throws std::system_error with the file's name if it cannot be made or exists already.
  TurnRecord(const std::filesystem::path& file, std::shared_ptr<control::ControlPlane> control);

  void began(std::string_view name) override;
  void given(std::optional<int> rank) override;

 private:
  // On a full disk, turns are lost without an error: a rank that hands over could not handle one.
  void write(std::string_view text) const;

  base::FileDescriptor file_;
  std::shared_ptr<control::ControlPlane> control_;
};

}  // namespace shardproof::world
