// The connection between the launcher of a world and the guard of one rank (guard.hpp), a Unix socket on one host. The
// launcher listens in the private directory in which the ranks meet, so only processes of the same user reach it. Each
// side learns from the end of the connection that the other side has ended. The end of a rank is not a message: it is
// on the control page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::launcher {

/// A guard sends it to the launcher.
struct GuardReport {
  enum class What : std::uint8_t {
    joined,    ///< It is the guard of `rank`.
    refused,   ///< It starts no rank. `text` says why.
    started,   ///< The rank is `process`.
    leftover,  ///< It has killed a process that the rank had left. `text` describes it.
  };
  What what = What::joined;
  int rank = -1;
  std::int64_t process = 0;
  std::string text;
  friend bool operator==(const GuardReport&, const GuardReport&) = default;
};

std::string_view to_string(GuardReport::What what);
void to_json(nlohmann::ordered_json& json, const GuardReport& report);
/// Throws std::invalid_argument, which names the field.
void from_json(const nlohmann::ordered_json& json, GuardReport& report);

/// The launcher sends it to a guard. The end of the connection asks the guard to end its rank and itself.
struct GuardRequest {
  enum class What : std::uint8_t {
    start,   ///< All guards of the world have joined: start the rank.
    signal,  ///< Send this signal to the rank.
  };
  What what = What::start;
  int signal = 0;
  friend bool operator==(const GuardRequest&, const GuardRequest&) = default;
};

std::string_view to_string(GuardRequest::What what);
void to_json(nlohmann::ordered_json& json, const GuardRequest& request);
void from_json(const nlohmann::ordered_json& json, GuardRequest& request);

/// One side of a connection. Its functions do not block.
class GuardLink {
 public:
  /// Throws std::system_error if no launcher listens in `directory`.
  static GuardLink connect(const std::filesystem::path& directory);
  explicit GuardLink(base::FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Readable when a message, or the end of the connection, has come.
  int descriptor() const { return socket_.get(); }

  /// A message is lost if the other side has ended.
  void send(const nlohmann::ordered_json& message) noexcept;
  /// This side sends no further message. The other side can still send.
  void end_sending() noexcept;
  /// The next message, if one has come. Throws std::invalid_argument or nlohmann's exceptions for another message.
  std::optional<nlohmann::ordered_json> receive();
  /// The other side has ended, or sends no further message. Known after `receive` returned no message.
  bool is_closed() const { return is_closed_; }

 private:
  base::FileDescriptor socket_;
  bool is_closed_ = false;
};

/// Where guards connect. The launcher has it.
class GuardListener {
 public:
  /// Throws std::system_error.
  explicit GuardListener(const std::filesystem::path& directory);
  /// Readable when a guard has connected.
  int descriptor() const { return socket_.get(); }
  /// The next connection, if there is one.
  std::optional<GuardLink> accept();

 private:
  base::FileDescriptor socket_;
};

}  // namespace shardproof::launcher
