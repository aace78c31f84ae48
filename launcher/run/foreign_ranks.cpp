#include "launcher/run/foreign_ranks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/base/rank_list.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/rank_end.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/run/guard.hpp"
#include "launcher/terminal/duration_text.hpp"

namespace shardproof::launcher {

using control::Deadline;
using protocol::RankEnd;

namespace {

using Clock = std::chrono::steady_clock;

// The keys of the poller, above all rank numbers and below those of the evidence.
constexpr std::uint64_t command_key = std::uint64_t{1} << 24, listener_key = command_key + 1,
                        watch_key = command_key + 2, first_link = command_key + 16;

/// The time for the command to end by itself after its guards.
constexpr std::chrono::seconds ending_limit{10};
/// The time from the first measure against the guards to SIGTERM for the command, and from one measure to the next.
constexpr std::chrono::seconds between_measures{1};

/// The variables of the ranks that this process's own environment does not have.
GuardOrder order_for(const WorldLaunch& launch) {
  GuardOrder order{.worker = launch.worker, .environment = {}};
  for (const std::string& variable : launch.environment) {
    const auto is_same = [&](const char* own) { return variable == own; };
    char** end = environ;
    while (*end != nullptr) ++end;
    if (std::any_of(environ, end, is_same)) continue;
    const std::size_t name_end = std::min(variable.find('='), variable.size());
    order.environment[variable.substr(0, name_end)] = variable.substr(std::min(name_end + 1, variable.size()));
  }
  order.environment[protocol::environment::tracer] = std::to_string(::getpid());
  return order;
}

}  // namespace

std::string launcher_command(std::string command, int world_size) {
  const std::string size = std::to_string(world_size);
  for (std::size_t at = 0; (at = command.find(ranks_word, at)) != std::string::npos; at += size.size())
    command.replace(at, sizeof ranks_word - 1, size);
  return command;
}

ForeignRanks::ForeignRanks(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                           const WorldLaunch& launch, control::ControlPage& page, Poller& poller)
    : plan_(plan),
      directory_(directory),
      launch_(launch),
      page_(page),
      poller_(poller),
      command_line_(launcher_command(launch.launcher, plan.size)),
      ranks_(static_cast<std::size_t>(plan.size)),
      next_link_(first_link),
      alive_(plan.size) {}

ForeignRanks::~ForeignRanks() = default;

// -- Start ------------------------------------------------------------------------------------------------------------

std::optional<Ranks::Failure> ForeignRanks::start() {
  const base::FileDescriptor log = open_log(directory_.launcher_log());
  write_own_file(directory_.guard_order(), base::dump_document(order_for(launch_)) + "\n", 2);
  try {
    watch_.emplace(page_.watcher());
    poller_.add(watch_->descriptor(), watch_key);
    listener_.emplace(plan_.rendezvous);
    poller_.add(listener_->descriptor(), listener_key);
    Command command{.program = "/bin/sh",
                    .arguments = {"-c", fmt::format("exec {} \"$@\"", command_line_), "sh",
                                  std::filesystem::read_symlink("/proc/self/exe").string(), "guard", "--join",
                                  std::filesystem::absolute(directory_.root).string()},
                    .environment = {},
                    .standard_output = log.get(),
                    .standard_error = log.get()};
    for (char** entry = environ; *entry != nullptr; ++entry) command.environment.emplace_back(*entry);
    command_.emplace(Process::spawn(command));
    poller_.add(command_->descriptor(), command_key);
  } catch (const std::system_error& error) {
    alive_ = 0;
    for (Rank& rank : ranks_) rank.state = State::ended;
    return Failure{.rank = 0, .why = error.what()};
  }
  join_by_ = Clock::now() + launch_.joining;
  return std::nullopt;
}

// -- Events -----------------------------------------------------------------------------------------------------------

bool ForeignRanks::shows_end(const std::vector<std::uint64_t>& ready) const {
  if (std::ranges::any_of(ready, [this](std::uint64_t key) { return key == command_key || links_.contains(key); }))
    return true;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (is_alive(rank) && page_.rank_end(rank)) return true;
  }
  return false;
}

std::vector<Ranks::Ended> ForeignRanks::collect(const std::vector<std::uint64_t>& ready) {
  const auto is_ready = [&](std::uint64_t key) { return std::ranges::find(ready, key) != ready.end(); };
  if (is_ready(watch_key)) watch_->clear();
  if (is_ready(listener_key)) accept_guards();
  for (const std::uint64_t key : ready) {
    if (links_.contains(key)) read_reports(key);
  }
  if (is_ready(command_key) && command_) take_end_of_command();
  check_deadlines();

  std::vector<Ended> lost, by_themselves, asked;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state != State::joined) continue;
    if (const auto end = page_.rank_end(rank)) {
      (end->asked_by == RankEnd::AskedBy::none ? by_themselves : asked)
          .push_back({.rank = rank,
                      .end = {.signalled = end->signalled, .code = end->code},
                      .lacked_memory = end->lacked_memory,
                      .reason = reason_of(*end)});
    } else if (has_lost_guard(rank)) {
      // The kernel kills a rank together with its guard (world/lifeline.hpp).
      lost.push_back({.rank = rank,
                      .end = {.signalled = true, .code = SIGKILL},
                      .reason = command_end_ ? fmt::format("because the command of --launcher ended with {}",
                                                           describe(*command_end_))
                                             : "because its guard ended"});
    } else {
      continue;
    }
    end_rank(rank);
  }
  std::ranges::stable_partition(by_themselves, [](const Ended& one) { return one.end.signalled; });
  // The command ends the ranks that are left because of the first ones.
  lost.insert(lost.end(), by_themselves.begin(), by_themselves.end());
  lost.insert(lost.end(), asked.begin(), asked.end());
  if (alive_ == 0 && !is_closing_) close_links();
  return lost;
}

std::string ForeignRanks::reason_of(const RankEnd& end) const {
  if (end.asked_by == RankEnd::AskedBy::none || !end.signalled) return {};
  if (!command_end_ && end.asked_by == RankEnd::AskedBy::launcher) return {};
  return command_end_ ? fmt::format("because the command of --launcher ended with {}", describe(*command_end_))
                      : "sent to its guard";
}

void ForeignRanks::accept_guards() {
  while (auto link = listener_->accept()) {
    if (is_closing_) continue;  // The guard sees the end of the connection.
    const std::uint64_t key = next_link_++;
    poller_.add(link->descriptor(), key);
    links_.emplace(key, Link{.link = std::move(*link)});
    read_reports(key);
  }
}

void ForeignRanks::read_reports(std::uint64_t key) {
  try {
    while (const auto message = links_.at(key).link.receive()) handle(message->get<GuardReport>(), key);
  } catch (const std::exception&) {
    return drop(key);  // No guard sends anything else.
  }
  if (links_.at(key).link.is_closed()) drop(key);
}

void ForeignRanks::handle(const GuardReport& report, std::uint64_t key) {
  using What = GuardReport::What;
  switch (report.what) {
    case What::joined:
      if (report.rank < 0 || report.rank >= plan_.size) return;
      if (at(report.rank).state != State::awaited) return refuse_second(report.rank, key);
      at(report.rank).state = State::joined;
      at(report.rank).link = key;
      links_.at(key).rank = report.rank;
      if (awaited().empty()) start_ranks();
      return;
    case What::refused:
      if (!has_started_) give_up(report.text, alive(*this, plan_.size));
      else if (links_.at(key).rank >= 0) give_up(report.text, {links_.at(key).rank});
      return;
    case What::started:
      if (links_.at(key).rank >= 0) at(links_.at(key).rank).process = static_cast<pid_t>(report.process);
      return;
    case What::leftover:
      if (launch_.print)
        launch_.print(fmt::format("warning: world {} left {}", directory_.root.filename().string(), report.text));
      return;
  }
}

void ForeignRanks::refuse_second(int rank, std::uint64_t key) {
  links_.at(key).link.end_sending();
  const std::string text = fmt::format("the command started two processes as rank {}", rank);
  if (!has_started_) give_up(text, alive(*this, plan_.size));
  else if (launch_.print) launch_.print(fmt::format("warning: {}; the second one was ended", text));
}

void ForeignRanks::start_ranks() {
  has_started_ = true;
  join_by_ = Deadline::max();
  for (const Rank& rank : ranks_) {
    if (links_.contains(rank.link)) links_.at(rank.link).link.send(GuardRequest{.what = GuardRequest::What::start});
  }
}

void ForeignRanks::take_end_of_command() {
  accept_guards();  // A guard may have come before.
  command_end_ = command_->collect();
  if (!command_end_) return;
  poller_.remove(command_->descriptor());
  command_.reset();
  if (!has_started_)
    give_up(fmt::format("the command ended with {} before it started {}", describe(*command_end_),
                        base::rank_list(awaited())),
            alive(*this, plan_.size));
  // The guards see the end of their parent, and end their ranks. A parent between them and the command may live on.
  end_command_at(Clock::now() + between_measures);
}

std::vector<int> ForeignRanks::awaited() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::awaited) ranks.push_back(rank);
  }
  return ranks;
}

/// These ranks will not run.
void ForeignRanks::give_up(const std::string& why, const std::vector<int>& ranks) {
  join_by_ = Deadline::max();
  if (ranks.empty() || !unstarted_.ranks.empty()) return;
  const std::string log = directory_.launcher_log().string();
  const std::string words = last_words(log);
  unstarted_ = {.ranks = ranks,
                .why = why,
                .output = fmt::format("(the command: {}; its output: {}){}{}", command_line_, log,
                                      words.empty() ? "\nit printed nothing" : "\nits last lines:\n", words)};
  for (const int rank : ranks) end_rank(rank);
  end_command_at(Clock::now() + between_measures);
}

Ranks::Unstarted ForeignRanks::take_unstarted() { return std::exchange(unstarted_, {}); }

void ForeignRanks::end_rank(int rank) {
  at(rank).state = State::ended;
  --alive_;
}

// -- The end of guards and command ------------------------------------------------------------------------------------

/// Each guard now ends, and with them the command.
void ForeignRanks::close_links() {
  is_closing_ = true;
  for (auto& [key, link] : links_) link.link.end_sending();
  end_command_at(Clock::now() + ending_limit);
}

void ForeignRanks::drop(std::uint64_t key) {
  poller_.remove(links_.at(key).link.descriptor());
  // A guard that ends before the start leaves no rank. If the command ended the guard, the end of the command says why.
  const int rank = links_.at(key).rank;
  if (!has_started_ && rank >= 0 && is_alive(rank)) at(rank) = {};
  links_.erase(key);
}

void ForeignRanks::end_command_at(Deadline at) {
  terminate_at_ = std::min(terminate_at_, at);
  kill_at_ = std::min(kill_at_, terminate_at_ + between_measures);
  abandon_at_ = std::min(abandon_at_, kill_at_ + Process::unkillable_after);
}

Deadline ForeignRanks::deadline() const {
  if (!unstarted_.ranks.empty()) return Clock::now();
  return is_over() ? Deadline::max() : std::min({join_by_, terminate_at_, kill_at_, abandon_at_});
}

void ForeignRanks::check_deadlines() {
  const Deadline now = Clock::now();
  if (now >= join_by_)
    give_up(fmt::format("the command has not started {} within {}", base::rank_list(awaited()),
                        seconds_text(launch_.joining)),
            alive(*this, plan_.size));
  if (now >= terminate_at_) {
    terminate_at_ = Deadline::max();
    if (command_) command_->signal_group(SIGTERM);
  }
  if (now >= kill_at_) {
    kill_at_ = Deadline::max();
    if (command_) command_->signal_group(SIGKILL);
    for (auto& [key, link] : links_)
      link.link.send(GuardRequest{.what = GuardRequest::What::signal, .signal = SIGKILL});
  }
  if (now >= abandon_at_) {
    abandon_at_ = Deadline::max();
    if (command_) {
      poller_.remove(command_->descriptor());
      command_->abandon();
      command_.reset();
    }
    while (is_closing_ && !links_.empty()) drop(links_.begin()->first);
  }
}

void ForeignRanks::signal_all(int number) noexcept {
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::joined && !has_lost_guard(rank))
      links_.at(at(rank).link).link.send(GuardRequest{.what = GuardRequest::What::signal, .signal = number});
  }
  if (number == SIGKILL) end_command_at(Clock::now() + between_measures);
  if (!has_started_) give_up("the world ended before the command started its ranks", alive(*this, plan_.size));
}

std::vector<Ranks::Abandoned> ForeignRanks::abandon() {
  std::vector<Abandoned> abandoned;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (!is_alive(rank)) continue;
    abandoned.push_back({.rank = rank, .process = at(rank).process});
    end_rank(rank);
  }
  close_links();
  return abandoned;
}

pid_t ForeignRanks::pid(int rank) const {
  const pid_t process = at(rank).process;
  if (process <= 0) return 0;
  // A guard in another PID namespace has other numbers.
  const std::string mark = fmt::format("{}={}", protocol::environment::plan, directory_.plan().string());
  return whole_text(fmt::format("/proc/{}/environ", process)).find(mark) == std::string::npos ? 0 : process;
}

}  // namespace shardproof::launcher
