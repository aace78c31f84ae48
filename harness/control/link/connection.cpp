#include "harness/control/link/connection.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "harness/base/sha256.hpp"

namespace shardproof::control::link {

namespace {

/// No message of the proof has more bytes.
constexpr std::size_t most_bytes_of_proof = 128;
/// A peer that takes no bytes any more is lost before this host runs out of memory.
constexpr std::size_t most_bytes_waiting = std::size_t{64} << 20U;

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

void set_options(int socket) {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 40'000);  // for bytes that the other side does not acknowledge
}

Connection::Connection(base::FileDescriptor socket, Side side, std::string secret)
    : socket_(std::move(socket)),
      secret_(std::move(secret)),
      step_(side == Side::hub ? Step::awaits_proof : Step::awaits_challenge) {
  set_options(socket_.get());
  if (side == Side::hub) {
    is_connecting_ = false;
    hub_nonce_ = fresh_nonce();
    queue(Challenge{hub_nonce_});
  } else {
    page_nonce_ = fresh_nonce();
  }
}

void Connection::queue(const Message& message) {
  out_ += encode(message);
  if (out_.size() > most_bytes_waiting) end("it takes no bytes any more");
}

void Connection::send(const Message& message) {
  if (!over_ && !ends_sending_) queue(message);
}

void Connection::end(std::string why) {
  if (!over_) over_ = std::move(why);
}

std::vector<Message> Connection::exchange() { return exchange_some(std::numeric_limits<std::size_t>::max()); }

std::optional<Message> Connection::exchange_one() {
  std::vector<Message> messages = exchange_some(1);
  return messages.empty() ? std::nullopt : std::optional(std::move(messages.front()));
}

std::vector<Message> Connection::exchange_some(std::size_t most) {
  std::vector<Message> messages;
  if (over_ || !finish_connecting()) return messages;
  flush();
  read();
  try {
    take_frames(messages, most);
  } catch (const BadMessage& bad) {
    end(fmt::format("it sent {}", bad.what()));
  }
  if (saw_end_ && messages.size() < most) {
    end(step_ == Step::awaits_welcome ? "it did not take this host's proof: it may have another secret"
                                      : "its end of the connection is closed");
  }
  if (!over_) flush();
  return messages;
}

bool Connection::finish_connecting() {
  if (!is_connecting_) return true;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (error != 0) {
    end(text_of(error));
  } else if (::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &length) == 0) {
    is_connecting_ = false;
  }
  return !is_connecting_;
}

void Connection::read() {
  std::array<char, 65536> bytes{};
  while (!saw_end_) {
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      in_.append(bytes.data(), static_cast<std::size_t>(count));
      // A peer without the secret must not fill this host's memory.
      if (!is_proved() && in_.size() > 2 * most_bytes_of_proof) return;
      if (static_cast<std::size_t>(count) < bytes.size()) return;
    } else if (count == 0) {
      saw_end_ = true;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      saw_end_ = true;
      end(text_of(errno));
    }
  }
}

void Connection::flush() {
  if (is_connecting_) return;
  std::size_t written = 0;
  while (written < out_.size()) {
    const ssize_t count = ::send(socket_.get(), out_.data() + written, out_.size() - written, MSG_NOSIGNAL);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      // The peer may have sent messages before it closed. `read` finds them, and then the end.
      written = out_.size();
    }
  }
  out_.erase(0, written);
  if (out_.empty() && ends_sending_ && !std::exchange(has_ended_sending_, true)) ::shutdown(socket_.get(), SHUT_WR);
}

void Connection::take_frames(std::vector<Message>& messages, std::size_t most) {
  std::string_view rest = in_;
  while (!over_ && messages.size() < most) {
    const auto body = first_frame(rest, is_proved() ? most_bytes : most_bytes_of_proof);
    if (!body) break;
    Message message = decode(*body);
    rest.remove_prefix(frame_header + body->size());
    if (is_proved()) {
      messages.push_back(std::move(message));
    } else {
      prove_step(message);
    }
  }
  in_.erase(0, in_.size() - rest.size());
}

void Connection::prove_step(const Message& message) {
  const auto check = [&](const Bytes32& mac, Side side) {
    if (base::is_same_secret(mac, prove(secret_, side, hub_nonce_, page_nonce_))) return true;
    end("it does not know the secret of this world");
    return false;
  };
  if (const auto* challenge = std::get_if<Challenge>(&message); challenge && step_ == Step::awaits_challenge) {
    hub_nonce_ = challenge->nonce;
    queue(Proof{.nonce = page_nonce_, .mac = prove(secret_, Side::page, hub_nonce_, page_nonce_)});
    step_ = Step::awaits_welcome;
  } else if (const auto* proof = std::get_if<Proof>(&message); proof && step_ == Step::awaits_proof) {
    page_nonce_ = proof->nonce;
    if (!check(proof->mac, Side::page)) return;
    queue(Welcome{prove(secret_, Side::hub, hub_nonce_, page_nonce_)});
    step_ = Step::proved;
  } else if (const auto* welcome = std::get_if<Welcome>(&message); welcome && step_ == Step::awaits_welcome) {
    if (check(welcome->mac, Side::hub)) step_ = Step::proved;
  } else {
    end(fmt::format("it sent {} before it proved that it knows the secret", name_of(message)));
  }
}

}  // namespace shardproof::control::link
