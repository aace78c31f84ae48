#include "launcher/run/guard.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/input_file.hpp"
#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/control/control_page.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/host_identity.hpp"
#include "harness/protocol/rank_end.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/gpus.hpp"
#include "launcher/process/leftovers.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/crash_evidence.hpp"
#include "launcher/run/evidence.hpp"
#include "launcher/run/guard_link.hpp"
#include "launcher/run/host_lead.hpp"
#include "launcher/run/supervisor.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

using control::Deadline;
using protocol::RankEnd;

void to_json(nlohmann::ordered_json& json, const GuardOrder& order) {
  json = nlohmann::ordered_json{
      {"worker", order.worker.string()}, {"addresses", order.addresses}, {"environment", order.environment}};
}

void from_json(const nlohmann::ordered_json& json, GuardOrder& order) {
  const base::Fields fields(json, "order for guards");
  order.worker = fields.text("worker");
  order.addresses = fields.text("addresses");
  order.environment = fields.text_map("environment");
}

namespace {

using Clock = std::chrono::steady_clock;

enum Key : std::uint64_t { of_rank, of_launcher, of_signals, of_parent, of_hub, of_crash, of_evidence, of_gpus };

/// The time to reach the launcher.
constexpr std::chrono::seconds connecting_limit{10};

/// The rank of this process by its environment, or the reason why it has none here.
struct Role {
  int rank = -1;
  std::string refusal;  ///< Empty: it has a rank.
  std::string variables;  ///< where the rank is from
};

Role find_role(int world_size, const std::string& host) {
  try {
    const auto identity = protocol::identity(foreign_variable);
    if (!identity)
      return {.refusal = fmt::format(
                  "the command started a process on {} without a rank in its environment (RANK and WORLD_SIZE, "
                  "OMPI_COMM_WORLD_*, PMI_*, or SLURM_PROCID in a step of srun): use mpirun, srun or torchrun",
                  host)};
    if (identity->world_size != world_size)
      return {.refusal =
                  fmt::format("the command started {} rank{}, the world has {} ({} on {}): write {{ranks}} where "
                              "the command takes the number of ranks, or give --ranks {}",
                              identity->world_size, identity->world_size == 1 ? "" : "s", world_size,
                              identity->variables, host, identity->world_size)};
    const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
    if (restarts != nullptr && restarts != std::string_view("0"))
      return {.refusal = fmt::format("torchrun has started rank {} again (TORCHELASTIC_RESTART_COUNT={}), and a world "
                                     "starts once; use torchrun --max-restarts 0",
                                     identity->rank, restarts)};
    return {.rank = identity->rank, .refusal = {}, .variables = identity->variables};
  } catch (const std::invalid_argument& error) {
    return {.refusal = fmt::format("on {}: {}", host, error.what())};
  }
}

/// Sets these variables in a list of NAME=value.
void set_variables(std::vector<std::string>& environment, const std::map<std::string, std::string>& variables) {
  std::erase_if(environment,
                [&](const std::string& entry) { return variables.contains(entry.substr(0, entry.find('='))); });
  for (const auto& [name, value] : variables) environment.push_back(fmt::format("{}={}", name, value));
}

std::uint64_t size_of(const std::filesystem::path& file) {
  struct stat status{};
  return ::stat(file.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// The process that started this one, as a descriptor. Empty if it is outside this PID namespace, or has ended.
base::FileDescriptor open_parent() {
  const pid_t parent = ::getppid();
  if (parent <= 1) return {};
  base::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, parent, 0)));
  // Its number may be another process's already.
  return ::getppid() == parent ? std::move(process) : base::FileDescriptor();
}

/// A document of the world's directory. Throws CommandError, which names the file.
template <class Document>
Document read_document(const std::filesystem::path& file) {
  try {
    return base::parse_json(base::read_input(file)).get<Document>();
  } catch (const nlohmann::ordered_json::parse_error& error) {
    throw CommandError(infrastructure, fmt::format("{}: {}", file.string(), base::syntax_error_text(error)));
  } catch (const base::UnreadableFile& error) {
    throw CommandError(infrastructure, error.what());
  } catch (const std::exception& error) {
    throw CommandError(infrastructure, fmt::format("{}: {}", file.string(), error.what()));
  }
}

class Guard {
 public:
  Guard(const protocol::WorldDirectory& directory, const protocol::WorldPlan& plan, const GuardOrder& order,
        std::string key)
      : directory_(directory),
        plan_(plan),
        order_(order),
        host_(protocol::host_identity(protocol::own_variable)),
        key_(std::move(key)),
        link_(GuardLink::connect(order.addresses, key_, connecting_limit)),
        parent_(open_parent()) {
    poller_.add(link_.descriptor(), of_launcher);
    poller_.add(signals_.descriptor(), of_signals);
    if (parent_) poller_.add(parent_.get(), of_parent);
  }

  int run() {
    const Role role = find_role(plan_.size, host_.name);
    rank_ = role.rank;
    if (!role.refusal.empty()) return refuse(role.refusal);
    report({.what = What::joined, .rank = rank_, .process = ::getpid(), .text = role.variables, .host = host_});
    while (!may_start_ && !is_leaving_) handle_events();
    if (!may_start_) return refusal_.empty() ? all_passed : usage;
    try {
      page_.emplace(control::ControlPage::open(rendezvous_ / "control", plan_.nonce));
      process_.emplace(start());
    } catch (const std::exception& error) {
      return refuse(fmt::format("rank {} could not be started on {}: {}", rank_, host_.name, error.what()));
    }
    poller_.add(process_->descriptor(), of_rank);
    report({.what = What::started, .rank = rank_, .process = process_->pid()});
    read_requests();  // some may have come with the order to start
    while (process_ || crash_ || !is_leaving_) handle_events();
    for (const Leftover& leftover : leftovers_.end())
      report({.what = What::leftover, .rank = rank_, .text = describe(leftover)});
    return all_passed;
  }

 private:
  using What = GuardReport::What;

  void report(const GuardReport& report) { link_.send(report); }

  /// Waits for the launcher, so that the command does not end the other guards before the launcher knows why.
  int refuse(const std::string& why) {
    report({.what = What::refused, .rank = rank_, .text = why});
    while (!is_leaving_) handle_events();
    return usage;
  }

  /// Asks the worker for its GPUs, in the environment of the rank. The NCCL tap is left out, because it would record
  /// this question.
  void list_gpus() {
    try {
      Worker worker = find_worker(order_.worker);
      set_variables(worker.environment, order_.environment);
      question_.emplace(worker, plan_.backend);
      poller_.add(question_->descriptor(), of_gpus);
    } catch (const std::exception& error) {
      report({.what = What::gpus, .rank = rank_, .text = error.what()});
    }
  }

  void take_gpus() {
    GuardReport answer{.what = What::gpus, .rank = rank_};
    try {
      std::optional<protocol::GpuListing> listing = question_->listing();
      if (!listing) return;
      answer.gpus = brief(*std::move(listing));
      if (!GuardLink::fits(answer)) {
        answer.text = fmt::format(
            "its list of {} GPUs is too long for a message to the launcher; show it fewer GPUs (CUDA_VISIBLE_DEVICES)",
            answer.gpus->gpus.size());
        answer.gpus.reset();
      }
    } catch (const std::exception& error) {
      answer.text = error.what();
    }
    poller_.remove(question_->descriptor());
    question_.reset();
    report(answer);
  }

  void lead(const GuardRequest& request) {
    try {
      protocol::WorldPlan plan = plan_;
      plan.unfit_for_timing = request.text;
      const std::vector<int>& ranks = request.ranks;
      lead_.emplace(plan, directory_, HostLead::Contact{.addresses = order_.addresses, .key = key_}, host_.name, ranks);
      poller_.add(lead_->link().descriptor(), of_hub);
      report({.what = What::ready, .rank = rank_, .text = lead_->rendezvous().string()});
    } catch (const std::exception& error) {
      refusal_ = fmt::format("the ranks on {} cannot meet: {}", host_.name, error.what());
      report({.what = What::refused, .rank = rank_, .text = refusal_});
    }
  }

  /// The rank is not on the launcher's host, or others are not: this guard collects the rank's evidence.
  bool is_spread() const { return rendezvous_ != plan_.rendezvous; }

  Process start() {
    const base::FileDescriptor out = open_log(directory_.standard_output(rank_)),
                               err = open_log(directory_.standard_error(rank_));
    std::map<std::string, std::string> own = order_.environment;
    if (!plan_.environment.empty()) {
      for (const auto& [name, value] : plan_.environment.at(static_cast<std::size_t>(rank_))) own[name] = value;
    }
    for (const auto& [name, value] : variables_) own[name] = value;
    own[protocol::environment::plan] =
        (is_spread() ? directory_.host_plan(first_of_host_) : directory_.plan()).string();
    if (is_spread()) own[protocol::environment::tracer] = std::to_string(::getpid());
    own[protocol::environment::parent] = std::to_string(::getpid());
    own[protocol::environment::rank] = std::to_string(rank_);
    Command command{.program = order_.worker,
                    .arguments = {},
                    .environment = {},
                    .standard_output = out.get(),
                    .standard_error = err.get(),
                    .inherits_descriptors = true};  // MPI's PMI_FD is one
    for (char** entry = environ; *entry != nullptr; ++entry) command.environment.emplace_back(*entry);
    set_variables(command.environment, own);
    return Process::spawn(command);
  }

  std::optional<Deadline> deadline() {
    std::optional<Deadline> first = kill_at_;
    const auto add = [&](std::optional<Deadline> at) {
      if (at) first = first ? std::min(*first, *at) : at;
    };
    if (question_) add(question_->deadline());
    if (lead_ && !is_leaving_) add(lead_->link().deadline());
    if (evidence_) add(evidence_->deadline());
    if (crash_) add(crash_->deadline());
    return first;
  }

  void handle_events() {
    const std::vector<std::uint64_t> ready = poller_.wait(deadline());
    const auto is_ready = [&](Key key) { return std::ranges::find(ready, key) != ready.end(); };
    if (is_ready(of_launcher)) read_requests();
    if (is_ready(of_signals)) pass_on_signals();
    if (is_ready(of_parent)) {
      poller_.remove(parent_.get());
      parent_ = {};
      if (!process_) is_leaving_ = true;
      kill_rank(RankEnd::AskedBy::foreign_launcher);
    }
    if (kill_at_ && Clock::now() >= *kill_at_) {
      kill_at_.reset();
      signal_rank(SIGKILL);
    }
    if (question_ && !is_leaving_) take_gpus();
    if (evidence_) continue_evidence(ready);
    if (crash_) save_crash(ready);
    if (process_) take_end();
    if (!lead_ || is_leaving_) return;
    // If the launcher has ended, the guards kill their ranks: no rank may be released before.
    read_requests();
    if (!is_leaving_) lead_->link().handle_events();
  }

  void read_requests() {
    try {
      while (const auto message = link_.receive()) {
        handle(message->get<GuardRequest>());
        if (may_start_ && !page_) return;  // The rank has to exist before the next request.
      }
    } catch (const std::exception&) {
      // A launcher sends nothing else.
    }
    if (link_.is_closed()) leave();
  }

  void handle(const GuardRequest& request) {
    using Wanted = GuardRequest::What;
    switch (request.what) {
      case Wanted::list_gpus: return list_gpus();
      case Wanted::lead: return lead(request);
      case Wanted::start:
        may_start_ = true;
        rendezvous_ = request.rendezvous;
        variables_ = request.variables;
        if (!request.ranks.empty()) first_of_host_ = request.ranks.front();
        return;
      case Wanted::signal: return ask(RankEnd::AskedBy::launcher, request.signal);
      case Wanted::release:
        if (page_) page_->impose_doom({.culprit = -1, .reason = control::AbortReason::died, .text = request.text});
        return;
      case Wanted::collect: return collect_evidence();
      case Wanted::leave: return leave();
    }
  }

  /// The world is over, or the launcher has ended.
  void leave() {
    if (is_leaving_) return;
    poller_.remove(link_.descriptor());
    if (lead_) poller_.remove(lead_->link().descriptor());
    is_leaving_ = true;
    kill_rank(RankEnd::AskedBy::launcher);
  }

  void collect_evidence() {
    if (process_)
      evidence_.emplace(directory_, std::vector{EvidenceCollector::Suspect{.rank = rank_, .process = process_->pid()}},
                        find_stack_tool(std::getenv("PATH")), poller_, of_evidence);
    else report({.what = What::collected, .rank = rank_});
  }

  void continue_evidence(const std::vector<std::uint64_t>& ready) {
    evidence_->advance(ready, Clock::now());
    if (!evidence_->done()) return;
    evidence_.reset();
    report({.what = What::collected, .rank = rank_});
  }

  /// The command ends its processes, or a user or a batch system ends them.
  void pass_on_signals() {
    while (const auto number = signals_.take()) {
      if (!process_) is_leaving_ = true;
      ask(RankEnd::AskedBy::foreign_launcher, *number);
      if (process_ && !kill_at_) kill_at_ = Clock::now() + Supervisor::saving_limit;
    }
  }

  void ask(RankEnd::AskedBy asked_by, int number) {
    if (!process_) return;
    if (asked_by_ == RankEnd::AskedBy::none) {
      asked_by_ = asked_by;
      asked_signal_ = number;
    }
    signal_rank(number);
  }

  void kill_rank(RankEnd::AskedBy asked_by) { ask(asked_by, SIGKILL); }

  void signal_rank(int number) {
    if (process_) process_->signal_group(number);
  }

  void take_end() {
    const auto exit = process_->collect();
    if (!exit) return;
    evidence_.reset();
    poller_.remove(process_->descriptor());
    process_.reset();
    kill_at_.reset();
    RankEnd end{.rank = rank_, .signalled = exit->signalled, .code = exit->code};
    end.asked_by = asked_by_;
    end.asked_signal = asked_signal_;
    end.lacked_memory =
        exit->signalled && exit->code == SIGKILL && asked_by_ == RankEnd::AskedBy::none && oom_kills_.take();
    end.stream_bytes = size_of(directory_.rank_stream(rank_));
    end.standard_output_bytes = size_of(directory_.standard_output(rank_));
    end.standard_error_bytes = size_of(directory_.standard_error(rank_));
    end.last_words = last_words(directory_.standard_error(rank_), 1);
    try {
      write_own_file(directory_.rank_end(rank_), base::dump_document(end) + "\n", 3);
    } catch (const std::exception& error) {
      print_error(error.what());  // The launcher has the end from the page.
    }
    page_->end_rank(end);
    if (!is_spread()) return;
    report({.what = What::ended, .rank = rank_, .end = end});
    const std::array ending{
        protocol::Ending{.rank = rank_,
                         .how = end.signalled ? protocol::Ending::How::signalled : protocol::Ending::How::exited,
                         .code = end.code}};
    protocol::WorldPlan here = plan_;
    here.rendezvous = rendezvous_;
    crash_.emplace(here, directory_, ending, poller_, of_crash);
    save_crash({});
  }

  void save_crash(const std::vector<std::uint64_t>& ready) {
    crash_->advance(ready, Clock::now());
    if (!crash_->done()) return;
    crash_.reset();
    report({.what = What::saved, .rank = rank_});
  }

  const protocol::WorldDirectory& directory_;
  const protocol::WorldPlan& plan_;
  const GuardOrder& order_;
  OomKills oom_kills_;
  SignalWatch signals_;
  Leftovers leftovers_;
  const protocol::HostIdentity host_;
  const std::string key_;
  GuardLink link_;
  base::FileDescriptor parent_;  ///< the process that started the guard; empty: it has ended, or is out of sight
  Poller poller_;
  std::optional<GpuQuestion> question_;  ///< Empty: the worker is not being asked for its GPUs.
  std::optional<HostLead> lead_;  ///< empty: this is not the lead guard of its host
  std::filesystem::path rendezvous_;  ///< of the ranks of this host
  std::optional<control::ControlPage> page_;  ///< empty: the rank was not started
  std::map<std::string, std::string> variables_;  ///< of the rank, from the launcher
  int rank_ = -1;
  int first_of_host_ = -1;  ///< the first rank of this host, in a world that is not only on the launcher's host
  std::string refusal_;  ///< why this lead guard cannot lead
  std::optional<Process> process_;  ///< empty: the rank has ended
  std::optional<EvidenceCollector> evidence_;  ///< while stacks of the rank are taken
  std::optional<CrashEvidence> crash_;  ///< after the rank's end, where ranks are on several hosts
  RankEnd::AskedBy asked_by_ = RankEnd::AskedBy::none;
  int asked_signal_ = 0;
  std::optional<Deadline> kill_at_;
  bool may_start_ = false;   ///< The launcher has asked for the rank.
  bool is_leaving_ = false;  ///< The launcher waits for no further report.
};

}  // namespace

const char* foreign_variable(const char* name) {
  return name == std::string_view(protocol::environment::rank) ? nullptr : std::getenv(name);
}

int guard_rank(const std::filesystem::path& world) {
  const protocol::WorldDirectory directory{world};
  if (!base::is_there(directory.plan()))
    throw CommandError(infrastructure,
                       fmt::format("{} does not see {}: the run directory (--out) has to be at the same path on all "
                                   "hosts, for example on NFS",
                                   protocol::host_name(), directory.plan().string()));
  const auto plan = read_document<protocol::WorldPlan>(directory.plan());
  const auto order = read_document<GuardOrder>(directory.guard_order());
  const auto unreachable = [](const char* why, const char* question) {
    return CommandError(infrastructure, fmt::format("cannot reach the launcher of this world from {}: {}{}",
                                                    protocol::host_name(), why, question));
  };
  std::string key;
  try {
    key = read_secret(directory.key(), 2);
  } catch (const base::UnreadableFile& error) {
    throw unreachable(error.what(), base::is_there(directory.key()) ? "" : "; is the run still going on?");
  }
  std::optional<Guard> guard;
  try {
    guard.emplace(directory, plan, order, std::move(key));
  } catch (const std::exception& error) {
    throw unreachable(error.what(),
                      "; is the run still going on, and may this host connect to the launcher's host by TCP?");
  }
  return guard->run();
}

}  // namespace shardproof::launcher
