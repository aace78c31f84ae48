#include "harness/protocol/warm_socket.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/base/utf8.hpp"

namespace shardproof::protocol {

using base::FileDescriptor;

namespace {

/// No answer exceeds these limits, and any socket takes an answer at once.
constexpr std::size_t longest_answer = 65536, longest_text = 8000, most_warnings = 16;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// A request's environment is longer than some sockets allow, and may contain any byte but NUL. So it travels in a file.
// The descriptors of a request are this file, standard output and standard error.
constexpr std::size_t descriptors_of_request = 3;
using Descriptors = std::array<int, descriptors_of_request>;

struct Ancillary {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Descriptors))> bytes{};
};

FileDescriptor written(const std::string& text) {
  FileDescriptor file(::memfd_create("shardproof-environment", MFD_CLOEXEC));
  if (!file) fail("memfd_create for a rank's environment");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file.get(), text.data() + done, text.size() - done);
    if (count < 0) fail("write a rank's environment");
    done += static_cast<std::size_t>(count);
  }
  return file;
}

std::string whole(const FileDescriptor& file) {
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t count = ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(text.size()));
    if (count < 0) fail("read a rank's environment");
    if (count == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

/// The bytes of the next message; nothing once the other end is closed. `message` has room for descriptors that come
/// with it.
std::optional<std::string> receive(int socket, std::size_t capacity, msghdr& message) {
  std::string text(capacity, '\0');
  iovec bytes{.iov_base = text.data(), .iov_len = text.size()};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  message.msg_iov = nullptr;
  message.msg_iovlen = 0;
  if (count < 0 && errno == ECONNRESET) return std::nullopt;  // closed before it read our last message
  if (count < 0) fail("receive on the socket of a warm process");
  if (count == 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(count));
  return text;
}

/// Takes ownership of the descriptors that came with a message.
std::vector<FileDescriptor> descriptors_of(msghdr& message) {
  std::vector<FileDescriptor> received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof descriptor);
      received.emplace_back(descriptor);
    }
  }
  return received;
}

void require_whole(const msghdr& message, std::size_t capacity) {
  if ((message.msg_flags & MSG_TRUNC) != 0)
    throw std::invalid_argument(fmt::format("a message of more than {} bytes", capacity));
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    throw std::invalid_argument(
        "a message lost descriptors: it had too many, or this process has too many open files (ulimit -n)");
}

void send(int socket, std::string text, const Ancillary* ancillary) {
  iovec bytes{.iov_base = text.data(), .iov_len = text.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (ancillary != nullptr) {
    message.msg_control = const_cast<char*>(ancillary->bytes.data());
    message.msg_controllen = ancillary->bytes.size();
  }
  ssize_t count = 0;
  do {
    count = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail("send on the socket of a warm process");
}

}  // namespace

std::pair<FileDescriptor, FileDescriptor> make_warm_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair for a warm process");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

void send_request(int socket, std::span<const std::string> environment, int standard_output, int standard_error) {
  std::string text;
  for (const std::string& variable : environment) (text += variable) += '\0';
  const FileDescriptor file = written(text);
  const Descriptors descriptors{file.get(), standard_output, standard_error};
  Ancillary ancillary;
  auto* const header = reinterpret_cast<cmsghdr*>(ancillary.bytes.data());
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  send(socket, "rank", &ancillary);
}

std::optional<CopyRequest> receive_request(int socket) {
  Ancillary ancillary;
  msghdr message{};
  message.msg_control = ancillary.bytes.data();
  message.msg_controllen = ancillary.bytes.size();
  constexpr std::size_t longest_request = 16;
  if (!receive(socket, longest_request, message)) return std::nullopt;
  std::vector<FileDescriptor> descriptors = descriptors_of(message);
  require_whole(message, longest_request);
  if (descriptors.size() != descriptors_of_request)
    throw std::invalid_argument("a request without its three descriptors");
  CopyRequest request{
      .environment = {}, .standard_output = std::move(descriptors[1]), .standard_error = std::move(descriptors[2])};
  const std::string text = whole(descriptors[0]);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    request.environment.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return request;
}

void send_answer(int socket, const CopyAnswer& answer) { send(socket, to_text(answer), nullptr); }

std::optional<CopyAnswer> receive_answer(int socket) {
  msghdr message{};
  const auto text = receive(socket, longest_answer, message);
  if (!text) return std::nullopt;
  require_whole(message, longest_answer);
  return read_answer(*text);
}

std::string to_text(const CopyAnswer& answer) {
  const std::string_view error =
      base::beginning_within(answer.error ? *answer.error : std::string_view(), longest_text);
  nlohmann::ordered_json json{{"process", answer.process}};
  if (answer.error) json = {{"error", error}};
  if (answer.warnings.empty()) return base::dump_line(json);
  std::size_t left = longest_text - error.size();
  std::vector<std::string> reported;
  for (const std::string& warning : answer.warnings) {
    if (reported.size() == most_warnings || left == 0) break;
    const std::string_view part = base::beginning_within(warning, left);
    left -= part.size();
    reported.push_back(std::string(part) + (part.size() < warning.size() ? "…" : ""));
  }
  if (const std::size_t more = answer.warnings.size() - reported.size(); more > 0)
    reported.push_back(fmt::format("{} more", more));
  json["warnings"] = reported;
  return base::dump_line(json);
}

CopyAnswer read_answer(const std::string& text) {
  nlohmann::ordered_json json;
  try {
    json = base::parse_json(text);
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument(fmt::format("no JSON: {}", base::shown(text)));
  }
  const base::Fields fields(json, "answer");
  CopyAnswer answer;
  if (fields.has("error")) answer.error = fields.text("error");
  else answer.process = fields.integer<pid_t>("process");
  if (fields.has("warnings")) answer.warnings = fields.texts("warnings");
  if (answer.process < 0) base::refuse(fields.where("process"), "a process id", json["process"]);
  return answer;
}

}  // namespace shardproof::protocol
