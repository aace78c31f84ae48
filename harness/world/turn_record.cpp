#include "harness/world/turn_record.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace shardproof::world {

TurnRecord::TurnRecord(const std::filesystem::path& file, std::shared_ptr<control::ControlPlane> control)
    : file_(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)),
      control_(std::move(control)) {
  if (!file_)
    throw std::system_error(errno, std::generic_category(), fmt::format("record of turns: open {}", file.string()));
  write("joining:");
}

void TurnRecord::began(std::string_view name) { write(fmt::format("\n{}:", name)); }

void TurnRecord::given(std::optional<int> rank) {
  control_->give_turn(rank);
  // Write each turn at once, without a buffer: after a crash, the last turn in the file is the rank that ran.
  if (rank) write(fmt::format(" {}", *rank));
}

void TurnRecord::write(std::string_view text) const {
  [[maybe_unused]] const auto written = ::write(file_.get(), text.data(), text.size());
}

}  // namespace shardproof::world
