// How a rank's process ended, as its launcher saw it. It outranks whatever the rank's own stream says.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardproof {

struct Ending {
  enum class How : std::uint8_t {
    exited,      ///< by itself, with `code`
    signalled,   ///< by signal `code`, sent by somebody else than the launcher
    overran,     ///< its deadline; the launcher ended it
    stopped,     ///< by the launcher, because of another rank
    interrupted, ///< by the launcher, because it was told to end the run
    not_started, ///< `text` says why
    foreign,     ///< another launcher owns the process: nothing is known
  };

  int rank = 0;
  How how = How::foreign;
  int code = 0;              ///< exit code or signal number
  std::int64_t position = -1; ///< in the plan, of the case it was in; -1: in none
  std::string text;
  std::string last_words;    ///< of a rank that died by itself: the last lines of its standard error
  bool is_cause = false;     ///< the first end that the launcher saw of a rank that had not left, and so that of the world
  friend bool operator==(const Ending&, const Ending&) = default;
};

/// A rank's own exit code. Verdicts are in its stream, never in the code.
enum RankExit : int {
  rank_left = 0,            ///< listed its cases, or left its world in order
  rank_usage = 2,           ///< bad arguments, or a program whose cases are declared wrongly
  rank_could_not_join = 3,  ///< never came to its first case
  rank_released = 4,        ///< left because its world was doomed: another rank died or overran
  rank_could_not_go_on = 5, ///< came to a case and could not come to the next, for instance because its stream cannot be written
};

/// True for a rank that found its arguments or its world not right and took no part in any case, by its launcher's word.
constexpr bool is_refusal(const Ending& ending) {
  return ending.how == Ending::How::exited && ending.position < 0 && (ending.code == rank_usage || ending.code == rank_could_not_join);
}

/// `signal 9 (SIGKILL)`
std::string signal_text(int number);

/// In brackets, what may help where the system gave this error instead of a process; empty where nothing is known.
std::string_view hint_for_no_process(int error);

std::string_view to_string(Ending::How how);
void to_json(nlohmann::ordered_json& json, const Ending& ending);
void from_json(const nlohmann::ordered_json& json, Ending& ending);

}  // namespace shardproof
