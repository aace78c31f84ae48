#include "harness/runner/warm.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/base/log_file.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/runner/coverage.hpp"
#include "harness/runner/environment_block.hpp"
#include "harness/world/running_threads.hpp"

namespace shardproof::runner {

using base::FileDescriptor;
using protocol::CopyAnswer;
using protocol::rank_could_not_join;
using protocol::warm_socket;

namespace {

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

/// Why copies of this process would lack a thread. Empty: they would not. `usual`: the number of other threads that the
/// process has without the subject.
std::string objection_to_threads(std::size_t usual) {
  if (world::thread_count() <= usual + 1) return {};  // the usual case, without a list
  const std::vector<std::string> left = world::other_threads();
  if (left.size() <= usual) return {};
  return fmt::format("it left {} running, which a copy of the process does not have: \"{}\"",
                     left.size() == 1 ? "a thread" : fmt::format("{} threads", left.size()), fmt::join(left, "\", \""));
}

/// The files that this process has open, besides its standard streams and its socket. Copies would share their
/// positions.
std::size_t open_files() {
  const auto is_socket = [](int descriptor) {
    struct stat status{};
    return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
  };
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    // The descriptor of the list itself is one of these.
    if (number > STDERR_FILENO && !(number == warm_socket && is_socket(number))) ++count;
  }
  return count - std::min<std::size_t>(count, 1);
}

bool has_sanitizer() {
  constexpr std::array functions{"__asan_init", "__hwasan_init", "__lsan_init", "__msan_init", "__tsan_init"};
  return std::ranges::any_of(functions, [](const char* name) { return ::dlsym(RTLD_DEFAULT, name) != nullptr; });
}

/// Otherwise each copy would do it at its first large allocation, and get its own copy of all memory that it touches.
void tidy_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

/// Connects the warm process with the process of a world, which writes its answer and ends.
struct Link {
  FileDescriptor ours, theirs;
};

Link make_link() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair for copies");
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
void say(const FileDescriptor& link, const CopyAnswer& answer) {
  const std::string text = protocol::to_text(answer);
  while (::send(link.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

constexpr std::string_view remedy_for_subject = "; end them, or start them in create";

struct Copy {
  pid_t process = -1;  ///< 0 in the copy itself
  std::string failure;  ///< why no copy exists
};

Copy copy(const Copier& copier, std::size_t usual_threads) noexcept {
  const pid_t before = ::getpid();
  Copy made;
  int error = 0;
  std::string said;
  try {
    if (const std::string why = objection_to_threads(usual_threads); !why.empty())
      throw std::runtime_error(fmt::format("prepare or fork: {}{}", why, remedy_for_subject));
    errno = 0;
    made.process = copier.fork();
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

void open_as(const std::string& file, int descriptor) {
  const FileDescriptor log = base::open_log_file(file);
  if (!log) fail("open " + file);
  if (::dup2(log.get(), descriptor) < 0) fail("dup2");
}

void become_rank(const protocol::RankRequest& rank, EnvironmentBlock& block) {
  ::close(warm_socket);
  open_as(rank.standard_output, STDOUT_FILENO);
  open_as(rank.standard_error, STDERR_FILENO);
  block.add(rank.environment);
}

/// The subject has no part in what `prepare_world` does.
void prepare_without_threads(const std::function<void()>& prepare_world, std::size_t usual_threads) {
  const bool had_others = !objection_to_threads(usual_threads).empty();  // the next copy says so
  prepare_world();
  if (had_others) return;
  if (const std::string why = objection_to_threads(usual_threads); !why.empty())
    throw std::runtime_error(
        fmt::format("cannot copy the process of a world: {}; this came with the world's cases and with Catch2, for "
                    "example from a listener that the program registers, and not from a subject: end them there, or "
                    "use --no-warm",
                    why));
}

/// The process of a world.
class WorldProcess {
 public:
  WorldProcess(const Copier& copier, std::size_t usual_threads, protocol::ReceivedRequest received, FileDescriptor link,
               EnvironmentBlock& block)
      : copier_(copier),
        usual_threads_(usual_threads),
        request_(std::move(received.request)),
        gate_(std::move(received.gate)),
        link_(std::move(link)),
        block_(block) {}

  /// Returns the gate, in a rank. The process of the world ends here.
  FileDescriptor make_ranks(const std::function<void()>& prepare_world) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    CopyAnswer answer;
    try {
      block_.set(request_.environment);
      prepare_without_threads(prepare_world, usual_threads_);
      for (const protocol::RankRequest& rank : request_.ranks) {
        const Copy made = copy(copier_, usual_threads_);
        if (made.process == 0) return begin(rank);
        if (made.process < 0) throw std::runtime_error(made.failure);
        if (::setpgid(made.process, made.process) != 0 && errno != ESRCH) fail("setpgid");
        answer.processes.push_back(made.process);
      }
    } catch (const std::exception& trouble) {
      answer.error = trouble.what();
    } catch (...) {
      answer.error = "an exception that is not a std::exception";
    }
    say(link_, answer);
    ::_exit(0);
  }

 private:
  /// No other process waits for an answer of the rank. The launcher sees its end.
  FileDescriptor begin(const protocol::RankRequest& rank) {
    link_ = FileDescriptor();
    try {
      become_rank(rank, block_);
    } catch (const std::exception& trouble) {
      fmt::print(stderr, "a rank cannot begin: {}\n", trouble.what());
      ::_exit(rank_could_not_join);
    }
    // Kept until the process ends: to free it, each rank would get its own copy of the pages around it.
    static const auto& kept = *new protocol::CopyRequest(std::move(request_));
    static_cast<void>(kept);
    return std::move(gate_);
  }

  const Copier& copier_;
  std::size_t usual_threads_;
  protocol::CopyRequest request_;
  FileDescriptor gate_, link_;
  EnvironmentBlock& block_;
};

/// Answers the request. Returns the gate, in a rank.
std::optional<FileDescriptor> make_ranks(const Copier& copier, std::size_t usual_threads,
                                         protocol::ReceivedRequest& received, EnvironmentBlock& block,
                                         const std::function<void()>& prepare_world) {
  std::fflush(nullptr);  // otherwise the copies would write the buffered output, too
  Link link = make_link();
  Copy between = copy(copier, usual_threads);
  if (between.process < 0) {
    protocol::send_answer(warm_socket, {.error = std::move(between.failure)});
    return std::nullopt;
  }
  if (between.process == 0) {
    link.ours = FileDescriptor();
    return WorldProcess(copier, usual_threads, std::move(received), std::move(link.theirs), block)
        .make_ranks(prepare_world);
  }
  link.theirs = FileDescriptor();
  const std::string said = all_of(link.ours);
  // When this returns, the kernel has given the ranks to the launcher.
  while (::waitpid(between.process, nullptr, 0) < 0 && errno == EINTR) {
  }
  protocol::send_answer(warm_socket, said.empty()
                                         ? CopyAnswer{.error = "a copy of the warm process ended before it had "
                                                               "made the ranks of its world"}
                                         : protocol::read_answer(said));
  return std::nullopt;
}

}  // namespace

Copier plain_copier() {
  const auto prepare = []() -> CopyAnswer {
    if (has_sanitizer()) return {.error = "it has a sanitizer"};
    if (has_coverage()) return {.error = "it counts what it runs"};
    if (std::string why = objection_to_threads(0); !why.empty()) return {.error = std::move(why)};
    if (const std::size_t files = open_files(); files > 0) return {.error = fmt::format("it has {} open files", files)};
    return {};
  };
  return {.prepare = prepare, .fork = [] { return ::fork(); }};
}

WarmEnd stay_warm(const Copier& copier, const std::function<void()>& prepare_world) {
  const std::size_t usual_threads = world::other_threads().size();  // threads of a sanitizer
  EnvironmentBlock block;
  CopyAnswer prepared = copier.prepare();
  if (const std::string why = prepared.error ? "" : objection_to_threads(usual_threads); !why.empty())
    prepared.error = fmt::format("{}{}", why, remedy_for_subject);
  if (!prepared.error) tidy_memory();
  protocol::send_answer(warm_socket, prepared);
  if (prepared.error) return {.code = rank_could_not_join, .gate = {}};
  while (auto received = protocol::receive_request(warm_socket)) {
    if (auto gate = make_ranks(copier, usual_threads, *received, block, prepare_world))
      return {.code = {}, .gate = *std::move(gate)};
  }
  return {.code = protocol::rank_left, .gate = {}};
}

void wait_for_launcher(const FileDescriptor& gate) {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = ::read(gate.get(), &byte, 1);
  } while (count < 0 && errno == EINTR);
  if (count != 1) ::_exit(rank_could_not_join);
}

}  // namespace shardproof::runner
