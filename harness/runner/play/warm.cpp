#include "harness/runner/play/warm.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/warm_socket.hpp"
#include "harness/world/process_end.hpp"
#include "harness/world/running_threads.hpp"

namespace shardproof::runner {

using base::FileDescriptor;
using protocol::CopyAnswer;
using protocol::rank_could_not_join;
using protocol::warm_socket;

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// An answer without an error: the subject is prepared.
CopyAnswer prepare(Subject& subject) {
  try {
    const Reply reply = subject.prepare();
    for (const std::string& warning : reply.warnings) fmt::print(stderr, "warning: {}\n", warning);
    CopyAnswer prepared{.warnings = reply.warnings};
    if (!reply.ok()) prepared.error = reply.error();
    return prepared;
  } catch (const std::exception& error) {
    return {.error = Reply::failed(error.what()).error()};
  }
}

/// Why copies of this process would lack a thread. Empty: they would not. `usual`: the number of other threads that the
/// process has without the subject.
std::string objection_to_threads(std::size_t usual) {
  const std::vector<std::string> left = world::other_threads();
  if (left.size() <= usual) return {};
  return fmt::format(
      "it left {} running, which a copy of the process does not have: \"{}\"; end them, or start them in create",
      left.size() == 1 ? "a thread" : fmt::format("{} threads", left.size()), fmt::join(left, "\", \""));
}

/// Connects this process with the copies that one request makes. The rank sends its process id and shuts down its
/// direction of the socket. Then the rank waits for a byte, which this process sends after its answer to the launcher.
struct Link {
  FileDescriptor ours, theirs;
};

Link make_link() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair for a copy");
  return {.ours = FileDescriptor(ends[0]), .theirs = FileDescriptor(ends[1])};
}

/// Reads until the other end is closed or shut.
std::string all_of(const FileDescriptor& link) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = ::read(link.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

/// The text fits into an empty socket. The other end may be gone, which must not raise SIGPIPE.
void say(const FileDescriptor& link, const std::string& text) {
  while (::send(link.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

struct Copy {
  pid_t process = -1;  ///< 0 in the copy itself
  std::string failure;  ///< why no copy exists
};

Copy copy(Subject& subject, std::size_t usual_threads) noexcept {
  const pid_t before = ::getpid();
  Copy made;
  int error = 0;
  std::string said;
  try {
    if (const std::string why = objection_to_threads(usual_threads); !why.empty())
      throw std::runtime_error("prepare or fork: " + why);
    errno = 0;
    made.process = subject.fork();
    error = errno;
    if (made.process < 0 && error != 0) said = std::generic_category().message(error);
    if (made.process == 0 && ::getpid() == before) {
      made.process = -1;
      said = "fork returned 0, as in a copy, but made no copy";
    }
  } catch (const std::exception& thrown) {
    said = thrown.what();
  } catch (...) {
    said = "fork threw something that is not a std::exception";
  }
  // A copy for which `fork` did not return 0.
  if (::getpid() != before && made.process != 0) ::_exit(rank_could_not_join);
  if (made.process < 0)
    made.failure = fmt::format("cannot copy the warm process{}{}{}", protocol::hint_for_no_process(error),
                               said.empty() ? "" : ": ", said);
  return made;
}

/// Waits until `parent` has ended. The kernel then gives this process its new parent.
void outlive(pid_t parent) {
  const FileDescriptor process = world::open_process(parent);
  if (!process || ::getppid() != parent) return;  // it has ended already
  world::has_ended(process, -1);
}

/// Runs in a copy whose parent ends at once.
void become_rank(const protocol::CopyRequest& request, pid_t parent) {
  ::close(warm_socket);
  outlive(parent);
  if (::setpgid(0, 0) != 0) fail("setpgid");
  if (::dup2(request.standard_output.get(), STDOUT_FILENO) < 0 ||
      ::dup2(request.standard_error.get(), STDERR_FILENO) < 0)
    fail("dup2");
  ::clearenv();
  for (const std::string& variable : request.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    if (::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1) != 0) fail("setenv");
  }
}

/// Runs in a copy, which copies itself again and ends at once. So the rank becomes a child of the launcher, which
/// adopts orphans.
///
/// Returns in the rank, after the launcher can know its process id. A rank that ran earlier could kill this process
/// before the answer. Its launcher would then report a rank that did not start, and drop the rank's results.
void continue_as_rank(Subject& subject, std::size_t usual_threads, const protocol::CopyRequest& request,
                      const FileDescriptor& link) {
  const pid_t parent = ::getpid();
  const Copy rank = copy(subject, usual_threads);
  if (rank.process < 0) say(link, protocol::to_text({.error = rank.failure}));
  if (rank.process != 0) ::_exit(0);
  try {
    become_rank(request, parent);
  } catch (const std::exception& trouble) {
    say(link, protocol::to_text({.error = trouble.what()}));
    ::_exit(rank_could_not_join);
  } catch (...) {
    say(link, protocol::to_text({.error = "an exception that is not a std::exception"}));
    ::_exit(rank_could_not_join);
  }
  say(link, protocol::to_text({.process = ::getpid()}));
  ::shutdown(link.get(), SHUT_WR);
  if (all_of(link).empty()) {
    fmt::print(stderr, "the warm process of this rank ended before the rank began\n");
    ::_exit(rank_could_not_join);
  }
}

/// Answers the request. Returns false in the rank.
bool make_rank(Subject& subject, std::size_t usual_threads, const protocol::CopyRequest& request) {
  std::fflush(nullptr);  // otherwise the copies would write the buffered output, too
  Link link = make_link();
  Copy between = copy(subject, usual_threads);
  if (between.process < 0) {
    protocol::send_answer(warm_socket, {.error = std::move(between.failure)});
    return true;
  }
  if (between.process == 0) {
    link.ours = FileDescriptor();  // otherwise the rank would keep open the end that it waits for
    continue_as_rank(subject, usual_threads, request, link.theirs);
    return false;
  }
  link.theirs = FileDescriptor();
  const std::string said = all_of(link.ours);
  while (::waitpid(between.process, nullptr, 0) < 0 && errno == EINTR) {
  }
  protocol::send_answer(warm_socket,
                        said.empty() ? CopyAnswer{.error = "a copy of the warm process ended before it became a rank"}
                                     : protocol::read_answer(said));
  say(link.ours, "!");
  return true;
}

}  // namespace

std::optional<int> stay_warm(Subject& subject) {
  const std::size_t usual_threads = world::other_threads().size();  // threads of a sanitizer
  CopyAnswer prepared = prepare(subject);
  if (std::string why = prepared.error ? "" : objection_to_threads(usual_threads); !why.empty())
    prepared.error = std::move(why);
  protocol::send_answer(warm_socket, prepared);
  if (prepared.error) return rank_could_not_join;
  while (const auto request = protocol::receive_request(warm_socket)) {
    if (!make_rank(subject, usual_threads, *request)) return std::nullopt;
  }
  return protocol::rank_left;
}

}  // namespace shardproof::runner
