// Ending is the end of a rank's process, as its launcher saw it. It overrides the rank's own stream.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardproof::protocol {

struct Ending {
  enum class How : std::uint8_t {
    exited,      ///< By itself, with `code`.
    signalled,   ///< By signal `code`, which another sender than the launcher sent.
    overran,     ///< Its deadline passed, and the launcher ended it.
    stopped,     ///< The launcher ended it because of another rank.
    interrupted, ///< The launcher ended it because the run was interrupted, or because its world had no room.
    not_started, ///< `text` says why.
    foreign,     ///< Another launcher owns the process: nothing is known.
  };

  int rank = 0;
  How how = How::foreign;
  int code = 0;              ///< Exit code or signal number.
  std::int64_t position = -1; ///< Position in the plan of the rank's case. -1: in no case.
  std::string text;
  /// The last lines of standard error, for a rank that died by itself.
  std::string last_words;
  /// The kernel killed it because memory ran out. Then `code` is SIGKILL.
  bool lacked_memory = false;
  /// Why another process ended it, where this is known: `sent to its guard`. Empty: not known.
  std::string reason;
  /// The launcher saw this end first among the ranks that had not left. So it ended the world.
  bool is_cause = false;
  friend bool operator==(const Ending&, const Ending&) = default;
};

/// The exit code of a rank. Verdicts are in the rank's stream, never in the code.
enum RankExit : int {
  rank_left = 0,            ///< It listed its cases, or left its world in order.
  rank_usage = 2,           ///< The arguments are bad, or the program declares its cases wrongly.
  rank_could_not_join = 3,  ///< It never reached its first case.
  rank_released = 4,        ///< It left because its world was doomed: another rank died or overran.
  /// It reached a case and could not reach the next one, for instance because it cannot write its stream.
  rank_could_not_go_on = 5,
};

/// True for a rank that refused its arguments or its world and took part in no case, by its launcher's record.
constexpr bool is_refusal(const Ending& ending) {
  return ending.how == Ending::How::exited && ending.position < 0 &&
         (ending.code == rank_usage || ending.code == rank_could_not_join);
}

/// `signal 9 (SIGKILL)`
std::string signal_text(int number);
/// The same for an ending by a signal, with the reason where it is known: `signal 9 (SIGKILL, from the kernel: memory
/// ran out)`, `signal 9 (SIGKILL, because its guard ended)`.
std::string signal_text(const Ending& ending);

/// A hint in brackets for an error that the system gave in place of a process. Empty where no hint is known.
std::string_view hint_for_no_process(int error);

std::string_view to_string(Ending::How how);
void to_json(nlohmann::ordered_json& json, const Ending& ending);
void from_json(const nlohmann::ordered_json& json, Ending& ending);

}  // namespace shardproof::protocol
