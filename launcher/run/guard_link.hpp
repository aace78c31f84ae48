// The connection between the launcher of a world and the guard of one rank (guard.hpp). It is a TCP connection to the
// world's hub (control/link/hub.hpp), on which both sides have proved that they know the world's key. Each side learns
// from the end of the connection that the other side has ended.
//
// The end of a rank is on the control page. Where ranks are on several hosts, the guard also reports it: the launcher
// needs the report if the rank's host loses its own connection to the hub.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/link/acceptor.hpp"
#include "harness/control/link/connection.hpp"
#include "harness/protocol/gpu_listing.hpp"
#include "harness/protocol/host_identity.hpp"
#include "harness/protocol/rank_end.hpp"

namespace shardproof::launcher {

/// A guard sends it to the launcher.
struct GuardReport {
  enum class What : std::uint8_t {
    joined,     ///< It is the guard of `rank`, on `host`, by the variables `text`.
    refused,    ///< It starts no rank. `text` says why.
    gpus,       ///< Its rank may use `gpus`. If they cannot be listed, `gpus` is empty, and `text` says why.
    ready,      ///< The ranks of its host meet in the directory `text`.
    started,    ///< The rank is `process`.
    ended,      ///< The rank has ended: `end`.
    collected,  ///< The stacks of the rank, which hangs, are in the world's directory.
    saved,      ///< After `ended`: the stack of the rank's crash is there, if the rank crashed.
    leftover,   ///< It has killed a process that the rank had left. `text` describes it.
  };
  What what = What::joined;
  int rank = -1;
  std::int64_t process = 0;
  std::string text;
  protocol::HostIdentity host;
  std::optional<protocol::RankEnd> end;
  std::optional<protocol::GpuListing> gpus;  ///< `brief` (process/gpus.hpp)
  friend bool operator==(const GuardReport&, const GuardReport&) = default;
};

std::string_view to_string(GuardReport::What what);
void to_json(nlohmann::ordered_json& json, const GuardReport& report);
/// Throws std::invalid_argument, which names the field.
void from_json(const nlohmann::ordered_json& json, GuardReport& report);

/// The launcher sends it to a guard. The end of the connection asks the guard to end its rank and itself.
struct GuardRequest {
  enum class What : std::uint8_t {
    list_gpus,  ///< Report the GPUs that your rank may use.
    /// Make the directory and the page of your host for `ranks`. Connect the page to the hub. `text`: why durations
    /// of this world mean nothing. Empty: they are valid.
    lead,
    /// All guards of the world have joined: start the rank. It meets the ranks of its host, `ranks`, in `rendezvous`.
    /// `ranks` is empty if all ranks are on the launcher's host. `variables` replace variables of the rank's
    /// environment.
    start,
    signal,  ///< Send this signal to the rank.
    release,  ///< The host has lost the hub: let its ranks leave, because of `text`.
    collect,  ///< Take the stacks of the rank.
    leave,  ///< The world is over: end the rank and yourself.
  };
  What what = What::start;
  int signal = 0;
  std::vector<int> ranks;
  std::filesystem::path rendezvous;
  std::map<std::string, std::string> variables;
  std::string text;
  friend bool operator==(const GuardRequest&, const GuardRequest&) = default;
};

std::string_view to_string(GuardRequest::What what);
void to_json(nlohmann::ordered_json& json, const GuardRequest& request);
void from_json(const nlohmann::ordered_json& json, GuardRequest& request);

/// One side of a connection. Its functions do not block.
class GuardLink {
 public:
  /// The guard's side. Waits for the launcher's hub at one of these addresses. Throws std::runtime_error with the
  /// answer of each address, or std::invalid_argument for addresses that are not valid.
  static GuardLink connect(std::string_view addresses, const std::string& key, std::chrono::nanoseconds limit);
  /// The launcher's side.
  explicit GuardLink(control::link::Acceptor::Arrival guest);

  /// Readable when a message, or the end of the connection, has come.
  int descriptor() const { return connection_.descriptor(); }

  /// Whether a message is short enough to be sent.
  static bool fits(const nlohmann::ordered_json& message);
  /// The message must fit. It is lost if the other side has ended.
  void send(const nlohmann::ordered_json& message) noexcept;
  /// The next message, if one has come. Throws std::invalid_argument or nlohmann's exceptions for another message.
  std::optional<nlohmann::ordered_json> receive();
  /// The other side has ended. Known after `receive` returned no message.
  bool is_closed() const { return received_.empty() && connection_.over().has_value(); }

 private:
  explicit GuardLink(control::link::Connection connection) : connection_(std::move(connection)) {}
  void take(const std::vector<control::link::Message>& messages);

  control::link::Connection connection_;
  std::deque<std::string> received_;
};

}  // namespace shardproof::launcher
