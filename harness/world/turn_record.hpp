// Who had the turn when: on the control page for whoever asks after a crash, and in a file that tells one interleaving from another.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/control_page.hpp"
#include "harness/world/seeded_scheduler.hpp"

namespace shardproof {

class TurnRecord final : public TurnObserver {
 public:
  /// Makes the file (WorldDirectory::turns): a line for what came before the first case, then one for each case. Throws std::system_error
  /// naming it when it cannot be made, or exists.
  TurnRecord(const std::filesystem::path& file, std::shared_ptr<ControlPage> control);

  void began(std::string_view name) override;
  void given(std::optional<int> rank) override;

 private:
  // What is lost on a full disk is lost: a rank that hands over could do nothing about it.
  void write(std::string_view text) const;

  FileDescriptor file_;
  std::shared_ptr<ControlPage> control_;
};

}  // namespace shardproof
