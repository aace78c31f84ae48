// RankEnd is the end of a rank that another launcher (mpirun, srun, torchrun) started. The rank's guard saw it: the
// process that started the rank, and waited for it. Our launcher makes the rank's Ending from it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace shardproof::protocol {

struct RankEnd {
  /// The process that asked the rank to end, before it ended.
  enum class AskedBy : std::uint8_t {
    none,
    launcher,          ///< our launcher
    foreign_launcher,  ///< the launcher that started the guard, or a user
  };

  int rank = 0;
  bool signalled = false;  ///< A signal ended the process.
  int code = 0;            ///< the exit code, or the signal's number
  AskedBy asked_by = AskedBy::none;
  int asked_signal = 0;  ///< the first signal that the guard passed on to the rank; 0: none
  bool lacked_memory = false;  ///< The kernel killed the process because memory ran out.
  /// The bytes of the rank's files at its end. On a shared file system, another host may see fewer bytes for a while.
  std::uint64_t stream_bytes = 0, standard_output_bytes = 0, standard_error_bytes = 0;
  std::string last_words;  ///< the last lines of standard error, for a rank that ended by itself
  friend bool operator==(const RankEnd&, const RankEnd&) = default;
};

std::string_view to_string(RankEnd::AskedBy asked_by);
void to_json(nlohmann::ordered_json& json, const RankEnd& end);
/// Throws std::invalid_argument, which names the field.
void from_json(const nlohmann::ordered_json& json, RankEnd& end);

}  // namespace shardproof::protocol
