#include "harness/cases/warm.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/warm_socket.hpp"
#include "harness/world/process_end.hpp"

namespace shardproof {

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// Without an error it is prepared.
CopyAnswer prepare(Subject& subject) {
  try {
    const Reply reply = subject.prepare();
    for (const std::string& warning : reply.warnings) fmt::print(stderr, "warning: {}\n", warning);
    return {.error = reply.error, .warnings = reply.warnings};
  } catch (const std::exception& error) {
    return {.error = error.what()};
  }
}

/// By which a copy says what has become of it. Once all copies have closed their end, or are gone, nothing more comes.
struct Pipe {
  FileDescriptor out, in;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2 for a copy");
  return {.out = FileDescriptor(ends[0]), .in = FileDescriptor(ends[1])};
}

std::string all_of(const FileDescriptor& pipe) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = ::read(pipe.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

/// Fits into an empty pipe.
void say(const FileDescriptor& pipe, const CopyAnswer& answer) {
  const std::string text = to_text(answer);
  while (::write(pipe.get(), text.data(), text.size()) < 0 && errno == EINTR) {
  }
}

std::string why_no_copy(int error) {
  return fmt::format("the warm process cannot be copied{}{}", hint_for_no_process(error),
                     error == 0 ? std::string() : ": " + std::generic_category().message(error));
}

pid_t copy(Subject& subject, int& error) noexcept {
  const pid_t before = ::getpid();
  errno = 0;
  pid_t process = -1;
  try {
    process = subject.fork();
  } catch (...) {
    errno = ECANCELED;
  }
  if (::getpid() != before && process != 0) ::_exit(rank_could_not_join);  // a copy that does not know that it is one
  error = process < 0 ? errno : 0;
  return process;
}

/// Until `parent` has ended, and whoever inherits this process from it has done so.
void outlive(pid_t parent) {
  const FileDescriptor process = open_process(parent);
  if (!process || ::getppid() != parent) return;  // it has ended already
  has_ended(process, -1);
}

/// In a copy whose parent ends at once.
void become_rank(const CopyRequest& request, pid_t parent) {
  ::close(warm_socket);
  outlive(parent);
  if (::setpgid(0, 0) != 0) fail("setpgid");
  if (::dup2(request.standard_output.get(), STDOUT_FILENO) < 0 || ::dup2(request.standard_error.get(), STDERR_FILENO) < 0) fail("dup2");
  ::clearenv();
  for (const std::string& variable : request.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    if (::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1) != 0) fail("setenv");
  }
}

/// In a copy, which copies itself again and ends at once, so that the rank becomes a child of the launcher, which takes in orphans. Returns
/// in the rank, once it has said which process it is.
void continue_as_rank(Subject& subject, const CopyRequest& request, const FileDescriptor& pipe) {
  int error = 0;
  const pid_t parent = ::getpid();
  const pid_t process = copy(subject, error);
  if (process < 0) say(pipe, {.error = why_no_copy(error)});
  if (process != 0) ::_exit(0);
  try {
    become_rank(request, parent);
  } catch (const std::exception& trouble) {
    say(pipe, {.error = trouble.what()});
    ::_exit(rank_could_not_join);
  } catch (...) {
    say(pipe, {.error = "an exception that is no std::exception"});
    ::_exit(rank_could_not_join);
  }
  say(pipe, {.process = ::getpid()});
}

/// What to answer; nothing in the rank.
std::optional<CopyAnswer> make_rank(Subject& subject, const CopyRequest& request) {
  std::fflush(nullptr);  // else what is in there would be written by the copies as well
  Pipe pipe = make_pipe();
  int error = 0;
  const pid_t between = copy(subject, error);
  if (between < 0) return CopyAnswer{.error = why_no_copy(error)};
  if (between == 0) {
    continue_as_rank(subject, request, pipe.in);
    return std::nullopt;
  }
  pipe.in = FileDescriptor();
  const std::string said = all_of(pipe.out);
  while (::waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (said.empty()) return CopyAnswer{.error = "a copy of the warm process ended before it was a rank"};
  return read_answer(said);
}

}  // namespace

std::optional<int> stay_warm(Subject& subject) {
  const CopyAnswer prepared = prepare(subject);
  send_answer(warm_socket, prepared);
  if (!prepared.error.empty()) return rank_could_not_join;
  while (const auto request = receive_request(warm_socket)) {
    const auto answer = make_rank(subject, *request);
    if (!answer) return std::nullopt;
    send_answer(warm_socket, *answer);
  }
  return rank_left;
}

}  // namespace shardproof
