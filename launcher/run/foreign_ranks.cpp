#include "launcher/run/foreign_ranks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/base/rank_list.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/events.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/process/random_token.hpp"
#include "launcher/run/crash_evidence.hpp"
#include "launcher/run/evidence.hpp"
#include "launcher/run/guard.hpp"
#include "launcher/terminal/duration_text.hpp"
#include "reports/merge/rank_stream.hpp"

namespace shardproof::launcher {

using control::Deadline;
using protocol::RankEnd;

namespace {

using Clock = std::chrono::steady_clock;

// The keys of the poller, above all rank numbers and below those of the evidence.
constexpr std::uint64_t command_key = std::uint64_t{1} << 24, hub_key = command_key + 1, watch_key = command_key + 2,
                        page_link_key = command_key + 3, first_link = command_key + 16;

/// The time for the command to end by itself after its guards.
constexpr std::chrono::seconds ending_limit{10};
/// The time from the first measure against the guards to SIGTERM for the command, and from one measure to the next.
constexpr std::chrono::seconds between_measures{1};

/// In a spread world, from the end of a guard's connection to the decision what was lost: the guard, or its whole host.
/// The processes of a host that is shut down do not end all at once.
constexpr std::chrono::milliseconds settling{100};
/// The longest wait for guards that read the records of crashes, after the last rank has ended.
constexpr std::chrono::nanoseconds saving_limit = CrashEvidence::time_limit + std::chrono::seconds(1);
/// The longest wait for the flight records of other hosts. They come within milliseconds, but a guard on a busy host may
/// get no processor for a while. Then old records would show a rank that goes on as one that is stuck.
constexpr std::chrono::seconds flight_limit{1};

/// The text for a shell, which adds the guard to the command. The shell's process becomes that of a plain command: so
/// signals reach it, and its end is exact. A command that sets variables first, or has several parts, needs the shell.
std::string shell_text(std::string_view command) {
  const std::size_t begin = std::min(command.find_first_not_of(" \t\n"), command.size());
  command = command.substr(begin, command.find_last_not_of(" \t\n") + 1 - begin);
  const std::string_view first = command.substr(0, command.find_first_of(" \t\n"));
  const bool is_plain =
      first.find('=') == std::string_view::npos && command.find_first_of(";&|\n") == std::string_view::npos;
  return fmt::format("{}{} \"$@\"", is_plain ? "exec " : "", command);
}

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
      here_(protocol::host_identity(protocol::own_variable)),
      key_(random_token()),
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
    Command command{
        .program = "/bin/sh",
        .arguments = {"-c", shell_text(command_line_), "sh", std::filesystem::read_symlink("/proc/self/exe").string(),
                      "guard", "--join", std::filesystem::absolute(directory_.root).string()},
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
  if (is_ready(command_key) && command_) take_end_of_command();
  take_lost_hosts();
  check_deadlines();

  const Deadline now = Clock::now();
  std::vector<Ended> lost, by_themselves, asked;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state != State::joined) continue;
    if (const auto end = page_.rank_end(rank)) {
      (end->asked_by == RankEnd::AskedBy::none ? by_themselves : asked).push_back(ended(*end));
    } else if (auto found = find_lost(rank, now)) {
      lost.push_back(*std::move(found));
    } else {
      continue;
    }
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

/// The end of a rank that is not on the page, because its guard or its host was lost.
std::optional<Ranks::Ended> ForeignRanks::find_lost(int rank, Deadline now) {
  const bool lost_guard = has_lost_guard(rank);
  // The kernel kills a rank together with its guard (world/lifeline.hpp).
  const auto killed = [rank](std::string reason) {
    return Ended{.rank = rank, .end = {.signalled = true, .code = SIGKILL}, .reason = std::move(reason)};
  };
  const auto killed_by_command = [&] {
    Ended end = killed(fmt::format("because the command of --launcher ended with {}", describe(*command_end_)));
    end.was_asked = true;
    return end;
  };
  if (!is_spread()) {
    if (!lost_guard) return std::nullopt;
    return command_end_ ? killed_by_command() : killed("because its guard ended");
  }
  const Host& host = hosts_[at(rank).host];
  if (host.lost && at(rank).reported_end) {
    take_progress_from_stream(rank);
    return ended(*at(rank).reported_end);
  }
  const bool is_silent = host.lost && host.lost->is_silent;
  if (!lost_guard && !is_silent) return std::nullopt;
  if (!is_silent && now < at(rank).guard_lost_at + settling) return std::nullopt;
  take_progress_from_stream(rank);
  if (!is_silent && is_lost_by_command(rank)) return killed_by_command();
  if (is_silent || is_lost_with_host(rank)) {
    Ended end = killed(fmt::format("because host {} with {} was lost{}", host.name, base::rank_list(host.lost->ranks),
                                   is_silent ? ": " + host.lost->why : ""));
    // The doom of its world may have released the rank from its case before. Its death is none of the next case.
    const auto doom = page_.doomed();
    end.was_asked = doom && doom->culprit != rank && page_.progress(rank).position < 0;
    return end;
  }
  Ended end = killed(fmt::format("because its guard on {} ended", host.name));
  end.was_asked = at(rank).follows;
  return end;
}

/// Whether the end of the command explains the end of the rank's guard. mpirun ends with a code once a guard is lost.
bool ForeignRanks::is_lost_by_command(int rank) const {
  if (!command_end_) return false;
  return command_end_->signalled || (!is_lost_with_host(rank) && at(rank).guard_lost_at >= command_ended_at_);
}

/// The last progress of a rank may be lost with its host's connection.
void ForeignRanks::take_progress_from_stream(int rank) {
  const reports::RankStream stream = reports::read_rank_stream(directory_.rank_stream(rank));
  control::Progress progress = page_.progress(rank);
  const std::uint64_t begun = stream.cases.size();
  bool is_in_case = begun > 0 && !stream.cases.back().ended;
  if (begun < progress.cases_ended + (is_in_case ? 1 : 0)) return;  // the stream of this rank is damaged
  // The end of a guard's connection is seen before the kernel kills its rank. If that end has released the rank, the
  // rank dies in that case.
  if (begun > 0 && !is_in_case) {
    const protocol::event::CaseEnded& last = *stream.cases.back().ended;
    is_in_case = last.outcome == protocol::Outcome::released && last.culprit == rank;
  }
  progress.cases_ended = begun - (is_in_case ? 1 : 0);
  progress.position = is_in_case ? static_cast<std::int64_t>(stream.cases.back().started.position) : -1;
  progress.left = stream.complete;
  page_.report(rank, progress);
}

/// Whether all guards of a host have ended at once, without a word about their ranks. Where the rank is the only one of
/// its host, that shows no more than the end of its guard.
bool ForeignRanks::is_lost_with_host(int rank) const {
  const Host& host = hosts_[at(rank).host];
  return host.lost && host.lost->ranks.size() > 1 && !has_guards(host) &&
         std::ranges::none_of(host.lost->ranks, [this](int other) { return at(other).reported_end.has_value(); });
}

bool ForeignRanks::has_guards(const Host& host, int except) const {
  return std::ranges::any_of(host.ranks, [&](int rank) { return rank != except && !has_lost_guard(rank); });
}

std::string ForeignRanks::reason_of(const RankEnd& end) const {
  if (end.asked_by == RankEnd::AskedBy::none || !end.signalled) return {};
  if (!command_end_ && end.asked_by == RankEnd::AskedBy::launcher) return {};
  return command_end_ ? fmt::format("because the command of --launcher ended with {}", describe(*command_end_))
                      : "sent to its guard";
}

void ForeignRanks::accept_guards() {
  for (control::link::Hub::Guest& guest : hub_->take_guests()) {
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
      if (at(report.rank).state != State::awaited) return refuse_second(report.rank, key);
      at(report.rank).state = State::joined;
      at(report.rank).link = key;
      at(report.rank).identity = report.host;
      links_.at(key).rank = report.rank;
      if (awaited().empty()) all_have_joined();
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

void ForeignRanks::refuse_second(int rank, std::uint64_t key) {
  links_.at(key).link.send(GuardRequest{.what = GuardRequest::What::leave});
  const std::string text = fmt::format("the command started two processes as rank {}", rank);
  if (!has_started_) give_up(text, alive(*this, plan_.size));
  else if (launch_.print) launch_.print(fmt::format("warning: {}; the second one was ended", text));
}

// -- The start of ranks -----------------------------------------------------------------------------------------------

void ForeignRanks::all_have_joined() {
  if (are_on_this_host()) return start_ranks();
  spread();
}

/// Whether all ranks are on one host, which has the launcher's memory. The launcher may have another name for it: Slurm
/// names nodes only for its own processes.
bool ForeignRanks::are_on_this_host() const {
  return std::ranges::all_of(ranks_, [this](const Rank& rank) {
    return rank.identity == ranks_.front().identity && rank.identity.boot == here_.boot &&
           rank.identity.memory == here_.memory;
  });
}

void ForeignRanks::spread() {
  for (int rank = 0; rank < plan_.size; ++rank) {
    const auto has_rank = [&](const Host& host) { return at(host.ranks.front()).identity == at(rank).identity; };
    auto host = std::ranges::find_if(hosts_, has_rank);
    if (host == hosts_.end()) host = hosts_.insert(host, {.name = at(rank).identity.name});
    host->ranks.push_back(rank);
    at(rank).host = static_cast<std::size_t>(host - hosts_.begin());
  }
  if (const std::string why = refusal_of_fabric(); !why.empty()) return give_up(why, alive(*this, plan_.size));
  try {
    make_directory(directory_.store());
    page_link_.emplace(page_, control::link::PageLink::Settings{
                                  .addresses = hub_->addresses(),
                                  .secret = key_,
                                  .hello = {.world_size = plan_.size, .host = here_.name, .watches = true}});
    poller_.add(page_link_->descriptor(), page_link_key);
  } catch (const std::exception& error) {
    return give_up(fmt::format("the launcher cannot reach its own hub: {}", error.what()), alive(*this, plan_.size));
  }
  for (const Host& host : hosts_)
    links_.at(at(host.ranks.front()).link)
        .link.send(GuardRequest{.what = GuardRequest::What::lead, .ranks = host.ranks});
}

/// Why the ranks of these hosts cannot reach each other. Empty: they can.
std::string ForeignRanks::refusal_of_fabric() const {
  if (hosts_.size() < 2 || plan_.fabric == protocol::mpi_fabric) return {};
  std::string text;
  for (const Host& host : hosts_)
    text += fmt::format("{}{} {} on {}", text.empty() ? "" : ", ", base::rank_list(host.ranks),
                        host.ranks.size() == 1 ? "is" : "are", host.name);
  std::set<std::string> names;
  for (const Host& host : hosts_) names.insert(host.name);
  return fmt::format("{}{}; the fabric {} reaches one host; {}", text,
                     names.size() < hosts_.size() ? ", each with its own /dev/shm" : "", plan_.fabric,
                     plan_.fabric == protocol::shm_fabric ? fmt::format("use --fabric {}", protocol::mpi_fabric)
                                                          : "let the command start all ranks on one");
}

void ForeignRanks::start_ranks() {
  has_started_ = true;
  join_by_ = Deadline::max();
  for (const Rank& rank : ranks_) {
    if (!links_.contains(rank.link)) continue;
    GuardRequest request{.what = GuardRequest::What::start, .rendezvous = plan_.rendezvous};
    if (is_spread()) {
      request.ranks = hosts_[rank.host].ranks;
      request.rendezvous = hosts_[rank.host].rendezvous;
    }
    links_.at(rank.link).link.send(request);
  }
}

// -- Hosts ------------------------------------------------------------------------------------------------------------

void ForeignRanks::advance_hub() {
  if (!hub_) return;
  hub_->handle_events();
  accept_guards();
  if (!page_link_) return;
  page_link_->handle_events();
  const bool all_ready = std::ranges::none_of(hosts_, [](const Host& host) { return host.rendezvous.empty(); });
  if (!has_started_ && unstarted_.ranks.empty() && alive_ > 0 && all_ready && page_link_->side().start()) start_ranks();
}

void ForeignRanks::take_lost_hosts() {
  if (!page_link_) return;
  const std::vector<control::link::HostLost>& lost = page_link_->side().lost_hosts();
  for (; seen_lost_hosts_ < lost.size(); ++seen_lost_hosts_) {
    const control::link::HostLost& one = lost[seen_lost_hosts_];
    if (!one.ranks.empty()) lose_host(hosts_[at(one.ranks.front()).host], one);
  }
  // Without the hub, no page hears of the others.
  if (!page_link_->lost()) return;
  for (Host& host : hosts_) {
    if (!host.lost) lose_host(host, {.host = host.name, .ranks = host.ranks, .why = *page_link_->lost()});
  }
}

void ForeignRanks::lose_host(Host& host, const control::link::HostLost& lost) {
  host.lost = lost;
  if (lost.is_silent) end_command_at(Clock::now() + between_measures);  // The command cannot end its processes there.
  const std::string text =
      fmt::format("host {} with {} was lost: {}", host.name, base::rank_list(lost.ranks), lost.why);
  for (const int rank : host.ranks) {
    if (has_lost_guard(rank)) continue;
    // The guards of a host that lost only its lead guard can still end their ranks.
    if (lost.is_silent) drop(at(rank).link);
    else links_.at(at(rank).link).link.send(GuardRequest{.what = GuardRequest::What::release, .text = text});
  }
}

std::optional<std::vector<protocol::FlightRecord>> ForeignRanks::flight_records() {
  if (!is_spread() || !page_link_) return std::nullopt;
  // A page sends the records of a world that ends by itself, before its ranks leave their calls.
  if (!page_.doomed() && has_started_) {
    std::uint64_t missing = 0;
    for (const Host& host : hosts_) missing += host.lost ? 0 : host.ranks.size();
    const std::uint64_t wanted = page_link_->side().flights_received() + missing;
    const Deadline until = Clock::now() + flight_limit;
    page_link_->send(control::link::FlightWanted{});
    Poller both;
    both.add(hub_->descriptor(), hub_key);
    both.add(page_link_->descriptor(), page_link_key);
    while (page_link_->side().flights_received() < wanted && !page_link_->is_over() && !page_.doomed() &&
           Clock::now() < until) {
      hub_->handle_events();
      page_link_->handle_events();
      both.wait(std::min(until, page_link_->deadline().value_or(until)));
    }
  }
  return page_link_->side().flight_records();
}

std::optional<std::filesystem::path> ForeignRanks::store() const {
  return is_spread() ? std::optional(directory_.store()) : std::nullopt;
}

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
  command_end_ = command_->collect();
  if (!command_end_) return;
  command_ended_at_ = Clock::now();
  poller_.remove(command_->descriptor());
  command_.reset();
  if (!has_started_)
    give_up(
        fmt::format(
            "the command ended with {} before {}{}", describe(*command_end_),
            awaited().empty() ? "the ranks began" : "it started " + base::rank_list(awaited()),
            command_end_->signalled || command_end_->code != 0 ? "" : ": it has to stay until its ranks have ended"),
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

std::string ForeignRanks::what_has_not_come() const {
  if (const std::vector<int> ranks = awaited(); !ranks.empty())
    return fmt::format("the command has not started {}", base::rank_list(ranks));
  const std::vector<int> missing = hub_->core().missing();
  std::string guards;
  int count = 0;
  for (const Host& host : hosts_) {
    const bool has_page = std::ranges::find(missing, host.ranks.front()) == missing.end();
    if (!host.rendezvous.empty() && has_page) continue;
    guards += fmt::format("{}rank {} on {}", guards.empty() ? "" : ", ", host.ranks.front(), host.name);
    ++count;
  }
  return fmt::format("the {} of {} not joined the launcher's hub", count == 1 ? "guard" : "guards",
                     guards + (count == 1 ? " has" : " have"));
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
  end_command_at(Clock::now() + ending_limit);
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
  // A guard that ends before the start leaves no rank. If the command ended the guard, the end of the command says why.
  const int rank = links_.at(key).rank;
  links_.erase(key);
  if (rank < 0) return;
  if (!has_started_ && is_alive(rank) && !is_spread()) {
    at(rank) = {};
    return;
  }
  if (!has_started_ && is_alive(rank))
    give_up(fmt::format("the guard of rank {} on {} ended before the ranks began", rank, at(rank).identity.name),
            alive(*this, plan_.size));
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

void ForeignRanks::end_command_at(Deadline at) {
  terminate_at_ = std::min(terminate_at_, at);
  kill_at_ = std::min(kill_at_, terminate_at_ + between_measures);
  abandon_at_ = std::min(abandon_at_, kill_at_ + Process::unkillable_after);
}

Deadline ForeignRanks::deadline() const {
  if (!unstarted_.ranks.empty()) return Clock::now();
  if (is_over()) return Deadline::max();
  Deadline first = std::min({join_by_, terminate_at_, kill_at_, abandon_at_});
  if (!is_closing_) first = std::min(first, saved_by_);
  if (hub_) first = std::min(first, hub_->deadline().value_or(Deadline::max()));
  if (page_link_) first = std::min(first, page_link_->deadline().value_or(Deadline::max()));
  if (!is_spread()) return first;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (at(rank).state == State::joined && has_lost_guard(rank))
      first = std::min(first, at(rank).guard_lost_at + settling);
  }
  return first;
}

void ForeignRanks::check_deadlines() {
  const Deadline now = Clock::now();
  if (now >= join_by_)
    give_up(fmt::format("{} within {} (--join-timeout)", what_has_not_come(), seconds_text(launch_.join_timeout)),
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
