// What a launcher and a warm process say to each other. A warm process is one of the worker's program in which whatever takes long and is
// the same for all ranks has been done once; ranks are copies of it. It says that it is ready, and then answers requests, one by one: each
// is for one rank, which does not begin before its answer has been sent.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"

namespace shardproof {

/// The descriptor of its socket in a warm process.
inline constexpr int warm_socket = 3;

/// Both ends of one. What is sent on it arrives whole; neither end is inherited by a program that is started. Throws std::system_error.
std::pair<FileDescriptor, FileDescriptor> make_warm_sockets();

/// What a rank is to begin with.
struct CopyRequest {
  std::vector<std::string> environment;  ///< NAME=value, all of it
  FileDescriptor standard_output, standard_error;
};

struct CopyAnswer {
  /// The rank, whose parent is the launcher by then and whose process group is its own; 0: it was none that was asked for.
  pid_t process = 0;
  std::optional<std::string> error;  ///< nothing: it went well
  /// What the subject said when it was prepared. Of many, or long ones, the first; the last then says how many more there were.
  std::vector<std::string> warnings;
};

// All throw std::system_error where the other end is gone or the socket is none; those that receive, std::invalid_argument for what is no
// such message. Receiving waits, and gives nothing once the other end is closed.

void send_request(int socket, std::span<const std::string> environment, int standard_output, int standard_error);
std::optional<CopyRequest> receive_request(int socket);
void send_answer(int socket, const CopyAnswer& answer);
std::optional<CopyAnswer> receive_answer(int socket);

/// As text, for a copy to hand to the process that is to answer.
std::string to_text(const CopyAnswer& answer);
CopyAnswer read_answer(const std::string& text);

}  // namespace shardproof
