#include "launcher/run/guard_link.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "harness/base/enum_names.hpp"
#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"

namespace shardproof::launcher {

namespace {

/// Longer texts are cut.
constexpr std::size_t longest_text = 4096;
/// A text grows when it becomes JSON.
constexpr std::size_t longest_message = 8 * longest_text;

constexpr char socket_name[] = "guards";
/// A mpirun of a large world connects its guards at once.
constexpr int backlog = 1024;

std::system_error failure(const char* what, const std::filesystem::path& directory) {
  return {errno, std::generic_category(), fmt::format("{} {}", what, (directory / socket_name).string())};
}

base::FileDescriptor make_socket(const std::filesystem::path& directory) {
  base::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw failure("socket", directory);
  return socket;
}

/// Calls `use` with the socket's address. The path of a socket may have 107 bytes only. The path of an open directory
/// in /proc is short.
template <class Use>
void with_address(const std::filesystem::path& directory, const char* what, const Use& use) {
  const base::FileDescriptor open(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!open) throw failure("open", directory);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", open.get(), socket_name);
  std::ranges::copy(path, address.sun_path);
  if (use(reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) throw failure(what, directory);
}

}  // namespace

std::string_view to_string(GuardReport::What what) {
  return base::name_of<GuardReport::What::leftover>(what, {"joined", "refused", "started", "leftover"});
}

std::string_view to_string(GuardRequest::What what) {
  return base::name_of<GuardRequest::What::signal>(what, {"start", "signal"});
}

void to_json(nlohmann::ordered_json& json, const GuardReport& report) {
  json = nlohmann::ordered_json{{"what", to_string(report.what)},
                                {"rank", report.rank},
                                {"process", report.process},
                                {"text", report.text.substr(0, longest_text)}};
}

void from_json(const nlohmann::ordered_json& json, GuardReport& report) {
  const base::Fields fields(json, "report of a guard");
  report.what = base::read_enum(fields, "what", GuardReport::What::leftover);
  report.rank = fields.integer<int>("rank", -1);
  report.process = fields.integer<std::int64_t>("process", 0);
  report.text = fields.text("text");
}

void to_json(nlohmann::ordered_json& json, const GuardRequest& request) {
  json = nlohmann::ordered_json{{"what", to_string(request.what)}, {"signal", request.signal}};
}

void from_json(const nlohmann::ordered_json& json, GuardRequest& request) {
  const base::Fields fields(json, "request to a guard");
  request.what = base::read_enum(fields, "what", GuardRequest::What::signal);
  request.signal = fields.integer<int>("signal", 0);
}

GuardLink GuardLink::connect(const std::filesystem::path& directory) {
  base::FileDescriptor socket = make_socket(directory);
  // A connection waits for a place in the launcher's queue. It does not wait for the launcher.
  ::fcntl(socket.get(), F_SETFL, 0);
  with_address(directory, "connect",
               [&](const sockaddr* address, socklen_t size) { return ::connect(socket.get(), address, size); });
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return GuardLink(std::move(socket));
}

void GuardLink::send(const nlohmann::ordered_json& message) noexcept {
  try {
    const std::string text = base::dump_line(message);
    [[maybe_unused]] const ssize_t sent =
        ::send(socket_.get(), text.data(), std::min(text.size(), longest_message), MSG_NOSIGNAL | MSG_DONTWAIT);
  } catch (const std::exception&) {
    // Without memory, the message is lost.
  }
}

void GuardLink::end_sending() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

std::optional<nlohmann::ordered_json> GuardLink::receive() {
  if (is_closed_) return std::nullopt;
  std::array<char, longest_message> text;
  const ssize_t size = ::recv(socket_.get(), text.data(), text.size(), 0);
  if (size > 0) return base::parse_json(std::string_view(text.data(), static_cast<std::size_t>(size)));
  is_closed_ = size == 0 || (errno != EAGAIN && errno != EINTR);
  return std::nullopt;
}

GuardListener::GuardListener(const std::filesystem::path& directory) : socket_(make_socket(directory)) {
  with_address(directory, "bind",
               [&](const sockaddr* address, socklen_t size) { return ::bind(socket_.get(), address, size); });
  if (::listen(socket_.get(), backlog) != 0) throw failure("listen", directory);
}

std::optional<GuardLink> GuardListener::accept() {
  base::FileDescriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return std::nullopt;
  return GuardLink(std::move(connection));
}

}  // namespace shardproof::launcher
