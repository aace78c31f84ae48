#include "harness/protocol/warm_socket.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
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

// A request is longer than some sockets allow, and may contain any byte but NUL. So it travels in a file. The
// descriptors of a request are this file and the gate.
constexpr std::size_t descriptors_of_request = 2;
using Descriptors = std::array<int, descriptors_of_request>;

struct Ancillary {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Descriptors))> bytes{};
};

FileDescriptor written(const std::string& text) {
  FileDescriptor file(::memfd_create("shardproof-request", MFD_CLOEXEC));
  if (!file) fail("memfd_create for a request for ranks");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file.get(), text.data() + done, text.size() - done);
    if (count < 0) fail("write a request for ranks");
    done += static_cast<std::size_t>(count);
  }
  return file;
}

std::string whole(const FileDescriptor& file) {
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t count = ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(text.size()));
    if (count < 0) fail("read a request for ranks");
    if (count == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

/// Lists of texts as one text: each list begins with its length, and each text ends with NUL.
class Encoder {
 public:
  void add(std::string_view one) { (text_ += one) += '\0'; }
  void add(const std::vector<std::string>& all) {
    add(std::to_string(all.size()));
    for (const std::string& one : all) add(one);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Decoder {
 public:
  explicit Decoder(std::string_view text) : rest_(text) {}
  std::string one() {
    const std::size_t end = rest_.find('\0');
    if (end == std::string_view::npos) throw std::invalid_argument("a request that ends too early");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::size_t length() {
    const std::string digits = one();
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (error != std::errc() || end != digits.data() + digits.size() || length > rest_.size())
      throw std::invalid_argument("a request with a malformed length");
    return length;
  }
  std::vector<std::string> all() {
    std::vector<std::string> texts(length());
    for (std::string& text : texts) text = one();
    return texts;
  }

 private:
  std::string_view rest_;
};

std::string encoded(const CopyRequest& request) {
  Encoder encoder;
  encoder.add(request.environment);
  encoder.add(std::to_string(request.ranks.size()));
  for (const RankRequest& rank : request.ranks) {
    encoder.add(rank.environment);
    encoder.add(rank.standard_output);
    encoder.add(rank.standard_error);
  }
  return encoder.text();
}

CopyRequest decoded(const std::string& text) {
  Decoder decoder(text);
  CopyRequest request{.environment = decoder.all(), .ranks = std::vector<RankRequest>(decoder.length())};
  for (RankRequest& rank : request.ranks)
    rank = {.environment = decoder.all(), .standard_output = decoder.one(), .standard_error = decoder.one()};
  return request;
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

void send_request(int socket, const CopyRequest& request, int gate) {
  const FileDescriptor file = written(encoded(request));
  const Descriptors descriptors{file.get(), gate};
  Ancillary ancillary;
  auto* const header = reinterpret_cast<cmsghdr*>(ancillary.bytes.data());
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  send(socket, "ranks", &ancillary);
}

std::optional<ReceivedRequest> receive_request(int socket) {
  Ancillary ancillary;
  msghdr message{};
  message.msg_control = ancillary.bytes.data();
  message.msg_controllen = ancillary.bytes.size();
  constexpr std::size_t longest_request = 16;
  if (!receive(socket, longest_request, message)) return std::nullopt;
  std::vector<FileDescriptor> descriptors = descriptors_of(message);
  require_whole(message, longest_request);
  if (descriptors.size() != descriptors_of_request)
    throw std::invalid_argument("a request without its two descriptors");
  return ReceivedRequest{.request = decoded(whole(descriptors[0])), .gate = std::move(descriptors[1])};
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
  nlohmann::ordered_json json{{"processes", answer.processes}};
  if (answer.error) json["error"] = error;
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
  if (!answer.error || fields.has("processes")) {
    for (const auto& process : fields.array("processes"))
      answer.processes.push_back(base::read_integer<pid_t>(process, fields.where("processes"), 1));
  }
  if (fields.has("warnings")) answer.warnings = fields.texts("warnings");
  return answer;
}

}  // namespace shardproof::protocol
