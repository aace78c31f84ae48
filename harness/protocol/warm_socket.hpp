// The messages between a launcher and a warm process. A warm process runs the worker's program and has done once what
// takes long and is the same for all ranks; ranks are copies of it. It reports that it is ready. Then it answers
// requests one by one. Each request is for one rank, which does not begin before the answer has been sent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
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

/// The environment and the outputs with which a rank begins.
struct CopyRequest {
  std::vector<std::string> environment;  ///< NAME=value, the complete environment
  base::FileDescriptor standard_output, standard_error;
};

struct CopyAnswer {
  /// The rank's process. The launcher is its parent by then, and its process group is its own. 0: no rank was
  /// requested.
  pid_t process = 0;
  std::optional<std::string> error;  ///< Nothing: success.
  /// The subject's warnings during its preparation. Many or long warnings are cut: only the first are kept. The last
  /// one then says how many more there were.
  std::vector<std::string> warnings;
};

// All of these throw std::system_error where the other end is gone or the descriptor is not a socket. Receivers throw
// std::invalid_argument for bytes that are not such a message. Receivers wait, and return nothing once the other end is
// closed.

void send_request(int socket, std::span<const std::string> environment, int standard_output, int standard_error);
std::optional<CopyRequest> receive_request(int socket);
void send_answer(int socket, const CopyAnswer& answer);
std::optional<CopyAnswer> receive_answer(int socket);

/// The answer as text. A copy hands it to the process that must answer.
std::string to_text(const CopyAnswer& answer);
CopyAnswer read_answer(const std::string& text);

}  // namespace shardproof::protocol
