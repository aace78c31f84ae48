#include "launcher/run/foreign_ranks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/base/rank_list.hpp"
#include "harness/protocol/environment.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/process/random_token.hpp"
#include "launcher/run/crash_evidence.hpp"
#include "launcher/run/evidence.hpp"
#include "launcher/run/guard.hpp"
#include "launcher/terminal/duration_text.hpp"

namespace shardproof::launcher {

using control::Deadline;
using protocol::RankEnd;

namespace {

using Clock = std::chrono::steady_clock;

/// The time for the command to end by itself after its guards.
constexpr std::chrono::seconds ending_limit{10};

/// The longest wait for guards that read the records of crashes, after the last rank has ended.
constexpr std::chrono::nanoseconds saving_limit = CrashEvidence::time_limit + std::chrono::seconds(1);
/// The variables of the ranks that this process's own environment does not have.
GuardOrder order_for(const WorldLaunch& launch, const std::string& addresses) {
  GuardOrder order{.worker = launch.worker, .addresses = addresses, .environment = {}};
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

/// For a process whose rank is from these variables. A launcher may not replace those that this process passes on.
std::string hint_for_own_variables(const std::string& variables) {
  try {
    const auto own = protocol::identity(foreign_variable);
    if (own && own->variables == variables)
      return fmt::format("; unset {} where you start shardproof, because it passes them on", variables);
  } catch (const std::invalid_argument&) {
    // Variables of another program.
  }
  return {};
}

}  // namespace

ForeignRanks::ForeignRanks(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                           const WorldLaunch& launch, control::ControlPage& page, Poller& poller)
    : plan_(plan),
      directory_(directory),
      launch_(launch),
      page_(page),
      poller_(poller),
      here_(protocol::host_identity(protocol::own_variable)),
      key_(random_token()),
      command_(launcher_command(launch.launcher, plan.size), poller, command_key),
      ranks_(static_cast<std::size_t>(plan.size)),
      next_link_(first_link),
      alive_(plan.size) {}

ForeignRanks::~ForeignRanks() {
  std::error_code ignored;  // without this object, the key opens nothing
  std::filesystem::remove(directory_.key(), ignored);
}

// -- Start ------------------------------------------------------------------------------------------------------------

std::optional<Ranks::Failure> ForeignRanks::start() {
  const base::FileDescriptor log = open_log(directory_.launcher_log());
  try {
    watch_.emplace(page_.watcher());
    poller_.add(watch_->descriptor(), watch_key);
    hub_.emplace(control::link::Hub::Settings{.core = {.world_size = plan_.size, .silence_limit = launch_.host_silence},
                                              .secret = key_});
    poller_.add(hub_->descriptor(), hub_key);
    write_secret(directory_.key(), key_, 2);
    write_own_file(directory_.guard_order(), base::dump_document(order_for(launch_, hub_->addresses())) + "\n", 2);
    command_.start(directory_.root, log);
  } catch (const std::system_error& error) {
    alive_ = 0;
    for (Rank& rank : ranks_) rank.state = State::ended;
    return Failure{.rank = 0, .why = error.what()};
  }
  join_by_ = Clock::now() + launch_.join_timeout;
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
  advance_hub();
  for (const std::uint64_t key : ready) {
    if (links_.contains(key)) read_reports(key);
  }
  if (is_ready(command_key) && command_.runs()) take_end_of_command();
  take_lost_hosts();
  check_deadlines();

  const Deadline now = Clock::now();
  std::vector<Ended> lost, by_themselves, asked;
  bool is_undecided = false;  // what was lost with a guard
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state != State::joined || page_.rank_end(rank)) continue;
    if (auto found = find_lost(rank, now)) {
      lost.push_back(*std::move(found));
      end_rank(rank);
    } else if (has_lost_guard(rank)) {
      is_undecided = true;
    }
  }
  for (int rank = 0; rank < plan_.size; ++rank) {
    const auto end = at(rank).state == State::joined ? page_.rank_end(rank) : std::nullopt;
    if (!end) continue;
    const bool was_asked = end->asked_by != RankEnd::AskedBy::none;
    // The command may have ended this rank because of that guard, which is the cause.
    if (was_asked && is_undecided) continue;
    (was_asked ? asked : by_themselves).push_back(ended(*end));
    end_rank(rank);
  }
  std::ranges::stable_partition(by_themselves, [](const Ended& one) { return one.end.signalled; });
  // The command ends the ranks that are left because of the first ones.
  lost.insert(lost.end(), by_themselves.begin(), by_themselves.end());
  lost.insert(lost.end(), asked.begin(), asked.end());
  if (alive_ == 0 && !is_closing_) {
    if (saved_by_ == Deadline::max()) saved_by_ = now + saving_limit;
    if (now >= saved_by_ || all_have_saved()) close_links();
  }
  return lost;
}

Ranks::Ended ForeignRanks::ended(const RankEnd& end) const {
  return {.rank = end.rank,
          .end = {.signalled = end.signalled, .code = end.code},
          .lacked_memory = end.lacked_memory,
          .reason = reason_of(end),
          .was_asked = end.signalled && end.asked_by != RankEnd::AskedBy::none &&
                       (end.code == end.asked_signal || end.code == SIGKILL)};
}

std::string ForeignRanks::reason_of(const RankEnd& end) const {
  if (end.asked_by == RankEnd::AskedBy::none || !end.signalled) return {};
  if (!command_.end() && end.asked_by == RankEnd::AskedBy::launcher) return {};
  if (command_.end()) return fmt::format("because the command of --launcher ended with {}", describe(*command_.end()));
  // No guard can pass SIGKILL on.
  return end.asked_signal == SIGKILL ? "because the process that started its guard ended" : "sent to its guard";
}

void ForeignRanks::accept_guards() {
  for (control::link::Acceptor::Arrival& guest : hub_->take_guests()) {
    if (is_closing_) continue;  // The guard sees the end of the connection.
    const std::uint64_t key = next_link_++;
    GuardLink link(std::move(guest));
    poller_.add(link.descriptor(), key);
    links_.emplace(key, Link{.link = std::move(link)});
    read_reports(key);
  }
}

void ForeignRanks::read_reports(std::uint64_t key) {
  while (true) {
    std::optional<GuardReport> report;
    try {
      if (const auto message = links_.at(key).link.receive()) report = message->get<GuardReport>();
    } catch (const std::exception&) {
      return drop(key);  // No guard sends anything else.
    }
    if (!report) break;
    handle(*report, key);
    if (!links_.contains(key)) return;
  }
  if (links_.at(key).link.is_closed()) drop(key);
}

void ForeignRanks::handle(const GuardReport& report, std::uint64_t key) {
  using What = GuardReport::What;
  switch (report.what) {
    case What::joined:
      if (report.rank < 0 || report.rank >= plan_.size) return;
      if (at(report.rank).state != State::awaited) return refuse_second(report, key);
      at(report.rank) = {.state = State::joined, .link = key, .identity = report.host};
      links_.at(key).rank = report.rank;
      // The guards that have come look for GPUs while others still start.
      if (launch_.gpus) links_.at(key).link.send(GuardRequest{.what = GuardRequest::What::list_gpus});
      return start_if_complete();
    case What::gpus:
      if (links_.at(key).rank >= 0 && is_alive(links_.at(key).rank)) take_gpus(links_.at(key).rank, report);
      return;
    case What::refused:
      if (!has_started_) give_up(report.text, alive(*this, plan_.size));
      else if (links_.at(key).rank >= 0) give_up(report.text, {links_.at(key).rank});
      return;
    case What::started:
      if (links_.at(key).rank >= 0) at(links_.at(key).rank).process = static_cast<pid_t>(report.process);
      return;
    case What::ready:
      if (links_.at(key).rank >= 0 && is_spread()) hosts_[at(links_.at(key).rank).host].rendezvous = report.text;
      return;
    case What::ended:
      if (links_.at(key).rank < 0 || !report.end || report.end->rank != links_.at(key).rank) return;
      at(report.end->rank).reported_end = report.end;
      at(report.end->rank).owes_evidence = false;
      return;
    case What::collected:
      if (links_.at(key).rank >= 0) at(links_.at(key).rank).owes_evidence = false;
      return;
    case What::saved:
      if (links_.at(key).rank >= 0) at(links_.at(key).rank).has_saved_crash = true;
      return;
    case What::leftover:
      if (launch_.print)
        launch_.print(fmt::format("warning: world {} left {}", directory_.root.filename().string(), report.text));
      return;
  }
}

void ForeignRanks::refuse_second(const GuardReport& report, std::uint64_t key) {
  links_.at(key).link.send(GuardRequest{.what = GuardRequest::What::leave});
  const std::string text = fmt::format("the command started two processes as rank {} ({} on {}){}", report.rank,
                                       report.text, report.host.name, hint_for_own_variables(report.text));
  if (!has_started_) give_up(text, alive(*this, plan_.size));
  else if (launch_.print) launch_.print(fmt::format("warning: {}; the second one was ended", text));
}

// -- The start of ranks -----------------------------------------------------------------------------------------------

void ForeignRanks::take_gpus(int rank, const GuardReport& report) {
  if (!launch_.gpus || at(rank).gpus) return;
  if (!report.gpus)
    return give_up(fmt::format("rank {} on {}: {}", rank, at(rank).identity.name, report.text),
                   alive(*this, plan_.size));
  at(rank).gpus = report.gpus;
  start_if_complete();
}

/// Starts the ranks once all guards have joined and have listed their GPUs.
void ForeignRanks::start_if_complete() {
  if (!awaited().empty() || (launch_.gpus && !without_gpus().empty())) return;
  if (launch_.gpus) {
    try {
      assign_gpus();
    } catch (const CommandError& error) {
      return give_up(error.what(), alive(*this, plan_.size));
    }
    // The ranks of this host read it, and so do later merges. Other hosts may still see the earlier file.
    write_own_file(directory_.plan(), base::dump_line(plan_) + "\n", 2);
  }
  if (are_on_this_host()) return start_ranks();
  spread();
}

void ForeignRanks::assign_gpus() {
  std::vector<GuardGpus> found;
  for (const Rank& rank : ranks_)
    found.push_back({.host = rank.identity.name, .machine = rank.identity.boot, .listing = *rank.gpus});
  const GpuAssignment assigned = launcher::assign_gpus(found, *launch_.gpus);
  gpu_variables_ = gpu_environment(assigned.uuids, assigned.nccl, directory_.root.filename().string(),
                                   launch_.environment, are_on_one_host());
  plan_.unfit_for_timing = assigned.unfit_for_timing;
  plan_.environment.resize(ranks_.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const auto& [name, value] : gpu_variables_[rank]) plan_.environment[rank][name] = value;
  }
}

void ForeignRanks::start_ranks() {
  has_started_ = true;
  join_by_ = Deadline::max();
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (has_lost_guard(rank)) continue;
    GuardRequest request{.what = GuardRequest::What::start, .rendezvous = plan_.rendezvous};
    if (is_spread()) {
      request.ranks = hosts_[at(rank).host].ranks;
      request.rendezvous = hosts_[at(rank).host].rendezvous;
    }
    if (launch_.gpus) request.variables = gpu_variables_[static_cast<std::size_t>(rank)];
    links_.at(at(rank).link).link.send(request);
  }
}

// -- Evidence ---------------------------------------------------------------------------------------------------------

void ForeignRanks::collect_evidence() {
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (!is_alive(rank) || has_lost_guard(rank)) continue;
    at(rank).owes_evidence = true;
    links_.at(at(rank).link).link.send(GuardRequest{.what = GuardRequest::What::collect});
  }
  evidence_by_ = Clock::now() + EvidenceCollector::time_limit;
}

std::optional<Deadline> ForeignRanks::evidence_deadline() const {
  const bool is_complete = std::ranges::none_of(ranks_, &Rank::owes_evidence);
  return is_complete || Clock::now() >= evidence_by_ ? std::nullopt : std::optional(evidence_by_);
}

// -- The end of the command -------------------------------------------------------------------------------------------

void ForeignRanks::take_end_of_command() {
  advance_hub();  // A guard may have come before.
  if (!command_.collect()) return;
  if (!has_started_)
    give_up(fmt::format("the command ended with {} before {}{}", describe(*command_.end()),
                        awaited().empty() ? "the ranks began" : "it started " + base::rank_list(awaited()),
                        command_.end()->signalled || command_.end()->code != 0
                            ? ""
                            : ": it has to stay until its ranks have ended"),
            alive(*this, plan_.size));
  // The guards see the end of their parent, and end their ranks. A parent between them and the command may live on.
  command_.end_at(Clock::now() + ForeignCommand::between_measures);
}

std::vector<int> ForeignRanks::awaited() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::awaited) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> ForeignRanks::without_gpus() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::joined && !at(rank).gpus) ranks.push_back(rank);
  }
  return ranks;
}

std::string ForeignRanks::what_has_not_come() const {
  if (const std::vector<int> ranks = awaited(); !ranks.empty())
    return fmt::format("the command has not started {}", base::rank_list(ranks));
  if (const std::vector<int> ranks = without_gpus(); launch_.gpus && !ranks.empty())
    return fmt::format("{} not listed {} GPUs", guards_text(ranks), ranks.size() == 1 ? "its" : "their");
  const std::vector<int> missing = hub_->core().missing();
  std::vector<int> leads;
  for (const Host& host : hosts_) {
    const bool has_page = std::ranges::find(missing, host.ranks.front()) == missing.end();
    if (host.rendezvous.empty() || !has_page) leads.push_back(host.ranks.front());
  }
  return guards_text(leads) + " not joined the launcher's hub";
}

std::string ForeignRanks::guards_text(const std::vector<int>& ranks) const {
  constexpr std::size_t shown = 8;
  std::string text;
  for (const int rank : std::span(ranks).first(std::min(ranks.size(), shown)))
    text += fmt::format("{}rank {} on {}", text.empty() ? "" : ", ", rank, at(rank).identity.name);
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return fmt::format("the {} of {} {}", ranks.size() == 1 ? "guard" : "guards", text,
                     ranks.size() == 1 ? "has" : "have");
}

void ForeignRanks::give_up_without_guard(int rank) {
  give_up(fmt::format("the guard of rank {} on {} ended before the ranks began", rank, at(rank).identity.name),
          alive(*this, plan_.size));
}

/// These ranks will not run. The first reason stays.
void ForeignRanks::give_up(const std::string& why, const std::vector<int>& ranks) {
  join_by_ = Deadline::max();
  if (ranks.empty()) return;
  if (!unstarted_.ranks.empty()) {
    for (const int rank : ranks) {
      if (!is_alive(rank)) continue;
      unstarted_.ranks.push_back(rank);
      end_rank(rank);
    }
    return;
  }
  const std::string log = directory_.launcher_log().string();
  const std::string words = last_words(log);
  unstarted_ = {.ranks = ranks,
                .why = why,
                .output = fmt::format("(the command: {}; its output: {}){}{}", command_.line(), log,
                                      words.empty() ? "\nit printed nothing" : "\nits last lines:\n", words)};
  for (const int rank : ranks) end_rank(rank);
  command_.end_at(Clock::now() + ForeignCommand::between_measures);
}

Ranks::Unstarted ForeignRanks::take_unstarted() { return std::exchange(unstarted_, {}); }

void ForeignRanks::end_rank(int rank) {
  at(rank).state = State::ended;
  --alive_;
}

/// mpirun ends all guards once the first one ends: then no guard may still read the record of a crash.
bool ForeignRanks::all_have_saved() const {
  if (!is_spread() || !has_started_) return true;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (!has_lost_guard(rank) && !at(rank).has_saved_crash) return false;
  }
  return true;
}

// -- The end of guards and command ------------------------------------------------------------------------------------

/// Each guard now ends, and with them the command.
void ForeignRanks::close_links() {
  is_closing_ = true;
  command_.end_at(Clock::now() + ending_limit);
  for (const Host& host : hosts_) ask_to_leave(host);
  for (auto& [key, link] : links_) {
    if (!is_spread() || link.rank < 0) link.link.send(GuardRequest{.what = GuardRequest::What::leave});
  }
}

/// The lead guard removes the directory of its host, so it is the last one that ends.
void ForeignRanks::ask_to_leave(const Host& host) {
  const int first = host.ranks.front();
  for (const int rank : host.ranks) {
    if (!has_lost_guard(rank) && (rank != first || !has_guards(host, first)))
      links_.at(at(rank).link).link.send(GuardRequest{.what = GuardRequest::What::leave});
  }
}

void ForeignRanks::drop(std::uint64_t key) {
  poller_.remove(links_.at(key).link.descriptor());
  const int rank = links_.at(key).rank;
  links_.erase(key);
  if (rank < 0) return;
  if (!has_started_ && is_alive(rank) && !is_spread()) {
    // A guard that ends before the start leaves no rank. If the command ended the guard, the end of the command says
    // why: `check_deadlines` waits for it.
    at(rank) = {.identity = at(rank).identity, .guard_lost_at = Clock::now()};
    return;
  }
  if (!has_started_ && is_alive(rank)) give_up_without_guard(rank);
  at(rank).guard_lost_at = Clock::now();
  if (const auto doom = page_.doomed(); doom && is_spread() && doom->culprit >= 0 && doom->culprit < plan_.size)
    at(rank).follows = at(doom->culprit).host != at(rank).host;
  at(rank).owes_evidence = false;
  if (has_started_ && is_spread() && is_alive(rank)) {
    // Its peers leave now. Whether its host was lost, too, is known later.
    page_.doom({.culprit = rank,
                .reason = control::AbortReason::died,
                .text = fmt::format("the guard of rank {} on {} ended", rank, at(rank).identity.name)});
  }
  if (is_closing_ && is_spread()) {
    const Host& host = hosts_[at(rank).host];
    if (!has_guards(host, host.ranks.front())) ask_to_leave(host);
  }
}

Deadline ForeignRanks::deadline() const {
  if (!unstarted_.ranks.empty()) return Clock::now();
  if (is_over()) return Deadline::max();
  Deadline first = std::min(join_by_, command_.deadline());
  if (!is_closing_) first = std::min(first, saved_by_);
  if (hub_) first = std::min(first, hub_->deadline().value_or(Deadline::max()));
  if (page_link_) first = std::min(first, page_link_->deadline().value_or(Deadline::max()));
  for (const Rank& rank : ranks_) {
    if (rank.state == State::awaited && rank.guard_lost_at != Deadline::max())
      first = std::min(first, rank.guard_lost_at + following);
  }
  if (!is_spread()) return first;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::joined && has_lost_guard(rank))
      first = std::min(first, at(rank).guard_lost_at + settling);
  }
  return first;
}

void ForeignRanks::check_deadlines() {
  const Deadline now = Clock::now();
  const bool is_late = now >= join_by_;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::awaited && at(rank).guard_lost_at <= (is_late ? now : now - following))
      give_up_without_guard(rank);
  }
  if (is_late && unstarted_.ranks.empty())
    give_up(fmt::format("{} within {} (--join-timeout)", what_has_not_come(), seconds_text(launch_.join_timeout)),
            alive(*this, plan_.size));
  const ForeignCommand::Due due = command_.take_measures(now);
  if (due.kill_guards) {
    for (auto& [key, link] : links_)
      link.link.send(GuardRequest{.what = GuardRequest::What::signal, .signal = SIGKILL});
  }
  while (due.drop_guards && is_closing_ && !links_.empty()) drop(links_.begin()->first);
}

void ForeignRanks::signal_all(int number) noexcept {
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::joined && !has_lost_guard(rank))
      links_.at(at(rank).link).link.send(GuardRequest{.what = GuardRequest::What::signal, .signal = number});
  }
  if (number == SIGKILL) command_.end_at(Clock::now() + ForeignCommand::between_measures);
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
