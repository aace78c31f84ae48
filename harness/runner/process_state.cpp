#include "harness/runner/process_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/protocol/ending.hpp"
#include "harness/world/running_threads.hpp"

namespace shardproof::runner {

namespace {

/// A thread that sleeps for so long has not just been told to end.
constexpr std::chrono::milliseconds sleeping_time{50};
/// The time limit for threads that do not sleep. They may be about to end, and wait for a core.
constexpr std::chrono::seconds working_time{5};
constexpr std::chrono::microseconds between_looks{200};
/// More threads or signals than these are counted.
constexpr std::size_t most_named = 4;

constexpr std::array<std::string_view, RLIMIT_NLIMITS> limit_names{
    "RLIMIT_CPU",      "RLIMIT_FSIZE",  "RLIMIT_DATA",    "RLIMIT_STACK", "RLIMIT_CORE",  "RLIMIT_RSS",
    "RLIMIT_NPROC",    "RLIMIT_NOFILE", "RLIMIT_MEMLOCK", "RLIMIT_AS",    "RLIMIT_LOCKS", "RLIMIT_SIGPENDING",
    "RLIMIT_MSGQUEUE", "RLIMIT_NICE",   "RLIMIT_RTPRIO",  "RLIMIT_RTTIME"};

rlimit limit_of(std::size_t resource) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  return limit;
}

std::string limit_text(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

/// The first elements, and how many more there are.
template <class T, class Describe>
std::string list_of(const std::vector<T>& all, const Describe& describe) {
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), most_named); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", describe(all[i]));
  if (all.size() > most_named) text += fmt::format(" and {} more", all.size() - most_named);
  return text;
}

std::string signals_text(const std::vector<int>& signals) {
  return list_of(signals, [](int number) { return protocol::signal_text(number); });
}

std::string threads_text(const std::vector<pid_t>& threads) {
  const std::string text = list_of(threads, world::describe_thread);
  const bool is_one = threads.size() == 1;
  return fmt::format("{} still run{}: join {} before the body ends, or declare keeps_threads() if a runtime keeps {}",
                     text, is_one ? "s" : "", is_one ? "it" : "them", is_one ? "it" : "them");
}

/// The current directory, or why it has no name.
std::string directory_name() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::current_path(error);
  return error ? fmt::format("unknown ({})", error.message()) : path.string();
}

/// ThreadSanitizer starts its own thread together with the first thread of the program. No case must get the blame.
void start_threads_of_sanitizer() {
#if defined(__SANITIZE_THREAD__)
  std::thread([] {}).join();
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  std::thread([] {}).join();
#endif
#endif
}

}  // namespace

ProcessState::ProcessState(bool is_shared) : is_shared_(is_shared), before_(read(is_shared)) {
  if (is_shared_) return;
  start_threads_of_sanitizer();
  umask_ = ::umask(077);  // for a moment
  ::umask(umask_);
  directory_ = directory_name();
  threads_ = world::thread_count() == 1 ? std::vector{::gettid()} : world::thread_ids();
  if (threads_.size() > 1) std::erase_if(threads_, world::is_ending);
  own_threads_ = threads_.size();
}

ProcessState::Settings ProcessState::read(bool is_shared) {
  Settings now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now.blocked);
  if (is_shared) return now;
  for (std::size_t resource = 0; resource < now.limits.size(); ++resource) now.limits[resource] = limit_of(resource);
  for (std::size_t number = 1; number < now.handlers.size(); ++number) {
    struct sigaction action{};
    ::sigaction(static_cast<int>(number), nullptr, &action);
    now.handlers[number] = action.sa_handler;
  }
  itimerval timer{};
  ::getitimer(ITIMER_REAL, &timer);
  now.has_timer = timer.it_value.tv_sec != 0 || timer.it_value.tv_usec != 0;
  ::prctl(PR_GET_PDEATHSIG, &now.death_signal, 0, 0, 0);
  struct stat directory{};
  ::stat(".", &directory);
  now.directory_device = directory.st_dev;
  now.directory_file = directory.st_ino;
  return now;
}

void ProcessState::begin_case() {
  if (is_shared_) return;
  if (!has_kept_threads() && world::thread_count() == threads_.size()) return;  // the usual case, without a list
  threads_ = world::thread_ids();
  std::erase_if(threads_, world::is_ending);
}

std::vector<std::string> ProcessState::changes(const Allowed& allowed) {
  const Settings now = read(is_shared_);
  if (!is_shared_) restore(now);
  std::vector<std::string> changes;
  if (!is_shared_ && !allowed.threads) {
    if (const std::vector<pid_t> left = threads_left(allowed); !left.empty()) changes.push_back(threads_text(left));
  }
  std::vector<std::string> settings = changed_signals(now, allowed);
  if (!is_shared_) add_changed_settings(now, settings);
  if (!settings.empty())
    changes.push_back(fmt::format("{}: restore {} before the body ends", fmt::join(settings, ", "),
                                  settings.size() == 1 ? "this" : "these"));
  return changes;
}

std::vector<std::string> ProcessState::changed_signals(const Settings& now, const Allowed& allowed) const {
  std::vector<int> blocked, unblocked, handled;
  for (int number = 1; number < NSIG; ++number) {
    const bool is_blocked = ::sigismember(&now.blocked, number) == 1;
    if (is_blocked != (::sigismember(&before_.blocked, number) == 1))
      (is_blocked ? blocked : unblocked).push_back(number);
  }
  for (std::size_t number = 1; number < now.handlers.size(); ++number) {
    if (!allowed.signal_handlers && now.handlers[number] != before_.handlers[number])
      handled.push_back(static_cast<int>(number));
  }
  std::vector<std::string> changes;
  const auto add = [&](const std::vector<int>& signals, std::string_view one, std::string_view several) {
    if (!signals.empty())
      changes.push_back(fmt::format("{} {}", signals_text(signals), signals.size() == 1 ? one : several));
  };
  add(blocked, "is blocked in the rank's thread", "are blocked in the rank's thread");
  add(unblocked, "is no longer blocked in the rank's thread", "are no longer blocked in the rank's thread");
  add(handled, "has another handler", "have other handlers");
  return changes;
}

void ProcessState::add_changed_settings(const Settings& now, std::vector<std::string>& changes) const {
  for (std::size_t resource = 0; resource < now.limits.size(); ++resource) {
    const auto add = [&](std::string_view which, rlim_t was, rlim_t is) {
      if (was != is)
        changes.push_back(fmt::format("the {} limit {} is {}, and was {}", which, limit_names[resource], limit_text(is),
                                      limit_text(was)));
    };
    add("soft", before_.limits[resource].rlim_cur, now.limits[resource].rlim_cur);
    add("hard", before_.limits[resource].rlim_max, now.limits[resource].rlim_max);
  }
  if (now.has_timer && !before_.has_timer) changes.emplace_back("a timer (alarm, setitimer) still runs");
  if (now.death_signal != before_.death_signal)
    changes.push_back(fmt::format("the signal at the parent's end (PR_SET_PDEATHSIG) is {}, and was {}",
                                  now.death_signal, before_.death_signal));
  // The call that reads the umask also sets it. So it sets the value that the umask should have.
  if (const mode_t umask = ::umask(umask_); umask != umask_)
    changes.push_back(fmt::format("the umask is {:04o}, and was {:04o}", umask, umask_));
  if (now.directory_device != before_.directory_device || now.directory_file != before_.directory_file)
    changes.push_back(fmt::format("the working directory is {}, and was {}", directory_name(), directory_));
}

/// The rank still has to write its results. It may need memory and files for that, and no signal of a timer may end it.
/// It must not outlive its launcher.
void ProcessState::restore(const Settings& now) const {
  constexpr itimerval none{};
  if (now.has_timer && !before_.has_timer) ::setitimer(ITIMER_REAL, &none, nullptr);
  if (now.death_signal != before_.death_signal) ::prctl(PR_SET_PDEATHSIG, before_.death_signal, 0, 0, 0);
  for (std::size_t resource = 0; resource < now.limits.size(); ++resource) {
    const rlimit &is = now.limits[resource], &was = before_.limits[resource];
    if (is.rlim_cur == was.rlim_cur) continue;
    const rlimit restored{.rlim_cur = std::min(was.rlim_cur, is.rlim_max), .rlim_max = is.rlim_max};
    ::setrlimit(static_cast<__rlimit_resource_t>(resource), &restored);
  }
}

/// The threads that the case has started and that run code of the program.
std::vector<pid_t> ProcessState::threads_left(const Allowed& allowed) const {
  // If an earlier case kept a thread that has ended meanwhile, the count could hide a new thread.
  if (!has_kept_threads() && world::thread_count() <= threads_.size()) return {};
  using Clock = std::chrono::steady_clock;
  const Clock::time_point give_up = Clock::now() + working_time;
  Clock::time_point asleep_since = Clock::now();
  std::vector<std::optional<std::uint64_t>> turns;
  for (;;) {
    const std::vector<pid_t> now = world::thread_ids();
    std::vector<pid_t> left;
    std::ranges::set_difference(now, threads_, std::back_inserter(left));
    std::erase_if(left, [&](pid_t thread) {
      return (allowed.is_of_runtime && allowed.is_of_runtime(thread)) || world::is_ending(thread);
    });
    std::vector<std::optional<std::uint64_t>> turns_now(left.size());
    std::ranges::transform(left, turns_now.begin(), world::turns_if_asleep);
    const Clock::time_point time = Clock::now();
    if (turns_now != turns || !std::ranges::all_of(turns_now, [](const auto& asleep) { return asleep.has_value(); }))
      asleep_since = time;
    if (left.empty() || time >= asleep_since + sleeping_time || time >= give_up) return left;
    turns = std::move(turns_now);
    std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace shardproof::runner
