#include "tests/fabric/worlds.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "harness/control/control_page.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"

namespace shardproof::testing {

namespace {

constexpr std::uint32_t first_epoch = 1;
constexpr unsigned seconds_until_a_hung_rank_is_killed = 120;

std::string failure_of(const Body& body, Side& side) {
  try {
    body(side);
    return {};
  } catch (const std::exception& exception) {
    const std::string text = *exception.what() == '\0' ? "an exception without words" : exception.what();
    side.control.doom(
        {side.rank, control::AbortReason::error, text});  // or its peers would wait for it until their deadline
    return text;
  }
}

[[noreturn]] void be_rank(int rank, int size, const std::string& directory, const Body& body, const Settings& settings,
                          int report) {
  ::alarm(seconds_until_a_hung_rank_is_killed);
  std::string failure;
  try {
    control::ControlPage control = control::ControlPage::open(directory + "/control", "nonce");
    rendezvous::FileStore store(directory + "/store", "nonce", rank);
    std::atomic<std::uint32_t> epoch{0};
    Side side{rank, size, control, nullptr, epoch, directory};
    side.world = fabric::make_shm_world({.control = &control,
                                         .store = &store,
                                         .directory = directory,
                                         .epoch = [&] { return epoch.load(); },
                                         .timeout = settings.timeout,
                                         .rank = rank,
                                         .detect_deadlock = true});
    side.next_case();
    failure = failure_of(body, side);
  } catch (const std::exception& exception) {
    failure = std::string("joining: ") + exception.what();
  }
  std::size_t written = 0;
  while (written < failure.size()) {
    const auto now = ::write(report, failure.data() + written, failure.size() - written);
    if (now <= 0) ::_exit(2);
    written += static_cast<std::size_t>(now);
  }
  ::_exit(0);
}

}  // namespace

void Side::next_case() {
  control.agree(rank, {}, std::chrono::steady_clock::now() + std::chrono::seconds(60));
  ++epoch;
}

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

bool keeps_freed_memory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
  return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
  return false;
#endif
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void expect_contains(const std::string& text, const std::string& part) {
  expect(text.find(part) != std::string::npos, text + " | lacks: " + part);
}

void await(const std::function<bool()>& holds, const std::string& what) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    expect(std::chrono::steady_clock::now() < limit, what);
    std::this_thread::yield();
  }
}

std::vector<std::string> run_on_threads(control::ControlPage& control, const Body& body, const GroupOf& group_of) {
  const auto size = static_cast<std::size_t>(control.world_size());
  std::vector<std::atomic<std::uint32_t>> epochs(size);
  for (auto& epoch : epochs) epoch = first_epoch;
  std::vector<std::string> failures(size);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      const int rank = static_cast<int>(i);
      Side side{rank, control.world_size(), control, group_of(rank, epochs[i]), epochs[i], {}};
      failures[i] = failure_of(body, side);
    });
  }
  for (auto& thread : threads) thread.join();
  return failures;
}

std::vector<std::string> run_threads(int size, const Body& body, const Settings& settings) {
  control::ControlPage control = control::ControlPage::anonymous(size);
  std::vector<std::atomic<std::uint32_t>*> epochs(static_cast<std::size_t>(size));
  auto groups =
      fabric::make_thread_world({.control = &control,
                                 .epoch = [&](int rank) { return epochs[static_cast<std::size_t>(rank)]->load(); },
                                 .timeout = settings.timeout,
                                 .detect_deadlock = true});
  return run_on_threads(control, body, [&](int rank, std::atomic<std::uint32_t>& epoch) {
    epochs[static_cast<std::size_t>(rank)] = &epoch;
    return std::move(groups[static_cast<std::size_t>(rank)]);
  });
}

std::vector<std::string> run_processes(int size, const Body& body, const Settings& settings) {
  const ScratchDirectory directory;
  control::ControlPage control = control::ControlPage::create(directory.path() + "/control", size, "nonce");
  struct Child {
    pid_t pid;
    int report;
  };
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    const pid_t pid = ::fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid == 0) {
      ::close(ends[0]);
      be_rank(rank, size, directory.path(), body, settings, ends[1]);
    }
    ::close(ends[1]);
    children.push_back({pid, ends[0]});
  }
  std::vector<std::string> failures(children.size());
  for (std::size_t left = children.size(); left > 0;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, 0);
    const auto child = std::find_if(children.begin(), children.end(), [&](const Child& it) { return it.pid == pid; });
    if (child == children.end()) continue;
    --left;
    const auto rank = child - children.begin();
    std::string& failure = failures[static_cast<std::size_t>(rank)];
    if (WIFSIGNALED(status)) {
      failure = "signal " + std::to_string(WTERMSIG(status));
      control.doom({static_cast<int>(rank), control::AbortReason::died, failure});
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) failure = "exit " + std::to_string(WEXITSTATUS(status));
    char part[4096];
    for (ssize_t got = 0; (got = ::read(child->report, part, sizeof part)) > 0;)
      failure.append(part, static_cast<std::size_t>(got));
    ::close(child->report);
  }
  return failures;
}

ScratchDirectory::ScratchDirectory()
    : path_((std::filesystem::temp_directory_path() / "shardproof-test-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace shardproof::testing
