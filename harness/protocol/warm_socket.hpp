// The messages between a launcher and a warm process. A warm process runs the worker's program and has done once what
// is the same for all ranks. Ranks are copies of it. It reports that it is ready. Then it answers requests one by one.
// Each request is for the ranks of one world. No rank begins before the launcher has its process id and lets it begin.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::protocol {

/// The descriptor of its socket in a warm process.
inline constexpr int warm_socket = 3;

/// Both ends of a new socket. A message arrives whole. A program that is started inherits neither end. Throws
/// std::system_error.
std::pair<base::FileDescriptor, base::FileDescriptor> make_warm_sockets();

/// The variables and the files of one rank.
struct RankRequest {
  std::vector<std::string> environment;  ///< NAME=value, after the variables of all ranks
  std::string standard_output, standard_error;  ///< files, which the rank makes
};

/// A request for ranks of one world.
struct CopyRequest {
  std::vector<std::string> environment;  ///< NAME=value, for each rank
  std::vector<RankRequest> ranks;
};

/// A request, with the end of a pipe from which each rank reads one byte before it begins.
struct ReceivedRequest {
  CopyRequest request;
  base::FileDescriptor gate;
};

struct CopyAnswer {
  /// The ranks' processes, in the order of the request. The launcher is the parent of each by then, and each leads its
  /// own process group. With an error: the ranks that exist, which do not begin.
  std::vector<pid_t> processes;
  std::optional<std::string> error;  ///< Nothing: success.
  /// The subject's warnings during its preparation. Many or long warnings are cut: only the first are kept. The last
  /// one then says how many more there were.
  std::vector<std::string> warnings;
};

// All of these throw std::system_error where the other end is gone or the descriptor is not a socket. Receivers throw
// std::invalid_argument for bytes that are not such a message. Receivers wait, and return nothing once the other end is
// closed.

/// `gate`: the end of a pipe for reading. Closing its other end instead of writing ends the ranks.
void send_request(int socket, const CopyRequest& request, int gate);
std::optional<ReceivedRequest> receive_request(int socket);
void send_answer(int socket, const CopyAnswer& answer);
std::optional<CopyAnswer> receive_answer(int socket);

/// The answer as text. A copy hands it to the process that must answer.
std::string to_text(const CopyAnswer& answer);
CopyAnswer read_answer(const std::string& text);

}  // namespace shardproof::protocol
