// Abort says why waits end early, and the exceptions that ended waits throw.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shardproof::control {

enum class AbortReason : std::uint8_t {
  failed,
  error,
  skipped,
  died,
  deadline,
  deadlock,
  disagreed,
  interrupted,
  no_room
};

std::string_view to_string(AbortReason reason);

/// The reason why waits end early: the rank that caused it, and what that rank did.
struct Abort {
  int culprit = -1;  ///< -1: the launcher
  AbortReason reason = AbortReason::error;
  std::string text;  ///< cut to 512 bytes
};

/// Ends the world of a rank that has no room for the memory of its ranks. `why` is the text of the error.
Abort no_room_for(int rank, std::string_view why);

/// A wait throws it when another rank aborted the world or the case. The case has the same outcome whether or not the
/// test body lets the exception propagate.
class Released : public std::runtime_error {
 public:
  explicit Released(Abort abort);
  const Abort& abort() const { return abort_; }

 private:
  Abort abort_;
};

/// Every rank that waits in a call throws it when no rank of the world can go on. The text is the same on all ranks: it
/// says where each rank waits.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace shardproof::control
