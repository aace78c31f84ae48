#include "launcher/run/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "harness/base/closest.hpp"
#include "harness/base/shell_word.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/protocol/case_filter.hpp"
#include "launcher/launcher.hpp"
#include "launcher/worker_client/subject.hpp"

namespace shardproof::launcher {

using protocol::CaseInfo;
using protocol::cuda_device;
using protocol::Listing;
using protocol::thread_fabric;
using protocol::WorldPlan;

namespace {

std::string_view name_of(std::string_view id) { return id.substr(0, id.find('[')); }

/// The suite, case name, id or tag that is most similar to the filter. Empty: none is similar.
std::string closest_name(const std::vector<CaseInfo>& cases, std::string_view filter) {
  std::set<std::string> candidates;
  for (const CaseInfo& info : cases) {
    candidates.insert(info.suite);
    candidates.insert(info.id);
    candidates.insert(std::string(name_of(info.id)));
    for (const std::string& tag : info.tags) candidates.insert("[" + tag + "]");
  }
  return base::closest(candidates, filter);
}

/// Guesses what a filter without a case means: `closest is 'overlap', `. Empty: unknown. `worker` is the option
/// that names the worker, after a blank.
std::string hint_for(const Listing& listing, const std::string& filter, const std::string& worker) {
  if (std::ranges::find(listing.clauses, filter, &protocol::ClauseInfo::id) != listing.clauses.end())
    return fmt::format("it is a clause, and `shardproof list --clauses{}` shows all clauses with their cases; ",
                       worker);
  if (const std::string near = closest_name(listing.cases, filter); !near.empty())
    return fmt::format("closest is '{}', ", near);
  std::set<std::string> profiles;
  for (const protocol::ProfileInfo& profile : listing.profiles) profiles.insert(profile.name);
  const std::string near = base::closest(profiles, filter);
  return near.empty() ? near : fmt::format("--profile {} selects the cases of a profile; ", near);
}

template <class Range>
std::string join(const Range& range) {
  return fmt::format("{}", fmt::join(range, ", "));
}

void require_known(const char* what, const std::string& requested, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), requested) != known.end()) return;
  throw CommandError(usage, base::unknown_name(what, requested, known));
}

void require_fault(const std::vector<protocol::FaultInfo>& faults, const std::string& requested) {
  std::set<std::string> names;
  for (const protocol::FaultInfo& fault : faults) names.insert(fault.name);
  if (names.contains(requested)) return;
  if (names.empty()) throw CommandError(usage, fmt::format("unknown fault '{}': this worker has no fault", requested));
  const std::string near = base::closest(names, requested);
  throw CommandError(usage, fmt::format("unknown fault '{}'; {}`shardproof list --clauses` shows all faults", requested,
                                        near.empty() ? "" : fmt::format("closest is '{}', ", near)));
}

void require_in_range(const PlanOptions& options) {
  for (const int size : options.ranks) {
    if (size < 1 || size > control::ControlPlane::max_world_size) {
      throw CommandError(
          usage, fmt::format("--ranks {}: a world has 1 to {} ranks", size, control::ControlPlane::max_world_size));
    }
  }
  if (options.repeat < 1) throw CommandError(usage, fmt::format("--repeat {}: at least once", options.repeat));
  if (options.timeout && options.timeout->count() < 1)
    throw CommandError(usage, "--timeout: must be longer than nothing");
}

void require_room(const std::vector<CaseInfo>& cases, const std::string& fabric) {
  if (fabric != thread_fabric) return;
  const auto largest = std::ranges::max_element(cases, {}, &CaseInfo::world_size);
  if (largest == cases.end() || largest->world_size <= protocol::max_threads) return;
  throw CommandError(
      usage, fmt::format("--fabric {}: {} has {} ranks, and one process has {} at most; --ranks selects world sizes",
                         fabric, largest->id, largest->world_size, protocol::max_threads));
}

/// Throws for sizes that the user asked for and that GPUs do not allow, and for a run without any case. Ignores cases
/// for threads, which are skipped on GPUs whatever their size is.
void require_gpus(std::vector<CaseInfo> cases, const PlanOptions& options) {
  if (!options.supply) return;
  std::erase_if(cases, &CaseInfo::on_threads);
  if (cases.empty()) return;
  for (const int size : options.ranks) {
    if (std::ranges::find(cases, size, &CaseInfo::world_size) == cases.end()) continue;
    if (const std::string why = why_too_large(*options.supply, size); !why.empty())
      throw CommandError(usage, fmt::format("--ranks {}: {}", size, why));
  }
  const auto smallest = std::ranges::min_element(cases, {}, &CaseInfo::world_size);
  if (const std::string why = why_too_large(*options.supply, smallest->world_size); !why.empty())
    throw CommandError(usage, fmt::format("no selected case can run: {}", why));
}

/// Distributes cases round-robin, so that every part gets cases of every world size.
void keep_shard(std::vector<CaseInfo>& cases, Shard shard) {
  if (static_cast<std::size_t>(shard.index) > cases.size()) {
    throw CommandError(usage, fmt::format("--shard {}/{} is empty: only {} case{} selected", shard.index, shard.count,
                                          cases.size(), cases.size() == 1 ? " is" : "s are"));
  }
  std::vector<CaseInfo> kept;
  for (std::size_t i = static_cast<std::size_t>(shard.index) - 1; i < cases.size();
       i += static_cast<std::size_t>(shard.count)) {
    kept.push_back(std::move(cases[i]));
  }
  cases = std::move(kept);
}

}  // namespace

Shard parse_shard(std::string_view text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto [slash, index_error] = std::from_chars(text.data(), end, shard.index);
  if (index_error == std::errc{} && slash != end && *slash == '/') {
    const auto [rest, count_error] = std::from_chars(slash + 1, end, shard.count);
    if (count_error == std::errc{} && rest == end && shard.index >= 1 && shard.index <= shard.count) return shard;
  }
  throw CommandError(usage, fmt::format("--shard {}: expected i/n with 1 <= i <= n, such as 2/5", text));
}

std::vector<CaseInfo> matching_cases(const Listing& listing, std::span<const std::string> filters,
                                     const std::filesystem::path& named_worker) {
  if (listing.cases.empty()) throw CommandError(usage, "the worker has no cases");
  std::vector<CaseInfo> cases = listing.cases;
  for (const std::string& filter : filters) {
    if (std::ranges::any_of(cases, [&](const CaseInfo& info) { return protocol::matches(info, filter); })) continue;
    const auto like = std::ranges::find_if(
        cases, [&](const CaseInfo& info) { return protocol::drawn_number(info, filter).has_value(); });
    if (like != cases.end()) {
      cases.push_back(protocol::drawn_case(*like, *protocol::drawn_number(*like, filter)));
      continue;
    }
    std::set<std::string> suites;
    for (const CaseInfo& info : listing.cases) suites.insert(info.suite);
    const std::string worker =
        named_worker.empty() ? std::string() : " --worker " + base::shell_word(named_worker.string());
    throw CommandError(
        usage, fmt::format("no case matches the filter '{}'; {}suites are {} (`shardproof list{}` shows all cases{})",
                           filter, hint_for(listing, filter, worker), join(suites), worker,
                           worker.empty() ? "; add --worker PROGRAM for cases of your own" : ""));
  }
  return protocol::select(cases, filters);
}

namespace {

/// Keeps cases that draw nothing. The cases that draw become those of the numbers from 1 to `most`. Throws CommandError
/// (usage) if no case draws.
void keep_drawn(std::vector<CaseInfo>& cases, int most) {
  std::vector<CaseInfo> more;
  int drawing = 0;
  const auto number = [](const CaseInfo& info) {
    return info.drawn_by.empty() ? 0 : protocol::drawn_number(info, info.id).value_or(0);
  };
  std::map<std::string, int> listed;  // the greatest number of each family, by the id of its first case
  for (const CaseInfo& info : cases) {
    if (info.drawn_by.empty()) continue;
    ++drawing;
    int& greatest = listed[protocol::drawn_case(info, 1).id];
    greatest = std::max(greatest, number(info));
  }
  if (drawing == 0)
    throw CommandError(usage, fmt::format("--generated {}: no selected case draws what it plays", most));
  for (const CaseInfo& info : cases) {
    if (number(info) != 1) continue;
    for (int next = listed.at(info.id) + 1; next <= most; ++next) more.push_back(protocol::drawn_case(info, next));
  }
  std::erase_if(cases, [&](const CaseInfo& info) { return number(info) > most; });
  cases.insert(cases.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  if (cases.empty()) throw CommandError(usage, fmt::format("--generated {}: no other case is selected", most));
}

/// Throws CommandError (usage) unless the scenario is for one case, which draws otherwise.
void require_one_drawn(const std::vector<CaseInfo>& cases, const std::filesystem::path& scenario) {
  if (cases.size() == 1 && !cases.front().drawn_by.empty()) return;
  throw CommandError(
      usage,
      fmt::format("--scenario {}: {}; select one case that draws what it plays, such as "
                  "'overlap/generated[W=2,generator=2,seed=1]' (`shardproof list --json` names them \"drawn_by\")",
                  scenario.string(),
                  cases.size() == 1 ? fmt::format("{} draws nothing", cases.front().id)
                                    : fmt::format("{} cases are selected", cases.size())));
}

}  // namespace

void keep_sizes(std::vector<CaseInfo>& cases, const std::vector<int>& wanted) {
  std::set<int> sizes;
  for (const CaseInfo& info : cases) sizes.insert(info.world_size);
  for (const int size : wanted) {
    if (!sizes.contains(size)) {
      throw CommandError(usage, fmt::format("--ranks {}: no selected case runs on {} rank{}; there are cases for {}",
                                            size, size, size == 1 ? "" : "s", join(sizes)));
    }
  }
  std::erase_if(cases, [&](const CaseInfo& info) {
    return std::find(wanted.begin(), wanted.end(), info.world_size) == wanted.end();
  });
}

std::vector<CaseInfo> select_cases(const Listing& listing, const PlanOptions& options) {
  std::vector<CaseInfo> cases = matching_cases(listing, options.filters, options.named_worker);
  if (!options.ranks.empty()) keep_sizes(cases, options.ranks);
  if (options.generated) keep_drawn(cases, *options.generated);
  if (!options.ranks.empty()) return cases;
  const std::string first = cases.front().id;
  const auto is_asked = [&](const CaseInfo& info) {
    return (options.generated && !info.drawn_by.empty()) ||
           std::ranges::find(options.filters, info.id) != options.filters.end();
  };
  std::erase_if(cases, [&](const CaseInfo& info) { return info.on_request && !is_asked(info); });
  if (cases.empty())
    throw CommandError(
        usage,
        fmt::format("only cases are selected that run on request, as {}: --ranks asks for the sizes of their worlds",
                    first));
  return cases;
}

bool lacks_usual_cases(const std::vector<CaseInfo>& cases, const Listing& listing) {
  const auto usual = [](const std::vector<CaseInfo>& among) {
    return std::ranges::count(among, false, &CaseInfo::on_request);
  };
  return usual(cases) < usual(listing.cases);
}

namespace {

int ranks_per_core(int ranks, const PlanOptions& options) {
  const bool take_turns = options.fabric == thread_fabric && options.scheduler != protocol::Scheduler::free;
  const int busy = options.jobs * (take_turns ? 1 : ranks);  // as if the simultaneous worlds had the same size
  const int per_core = options.cores < 1 ? 1 : (busy + options.cores - 1) / options.cores;
  return take_turns ? ranks * per_core : per_core;
}

/// Throws if the user asks for threads and the worker has none, or sets a scheduler and no rank can be a thread.
void require_threads(const Listing& listing, const PlanOptions& options) {
  if (options.fabric == thread_fabric) {
    if (!listing.why_no_threads.empty())
      throw CommandError(usage, fmt::format("--fabric {}: {}", thread_fabric, listing.why_no_threads));
  } else if (options.scheduler && std::ranges::none_of(listing.cases, &CaseInfo::on_threads)) {
    throw CommandError(
        usage,
        fmt::format("--scheduler {}: ranks are scheduled with --fabric {} only, as no case asks for threads itself",
                    protocol::to_string(*options.scheduler), thread_fabric));
  }
}

/// Why this run skips cases whose ranks have to be threads. Empty: it does not skip them.
std::string why_no_threads(const Listing& listing, const PlanOptions& options) {
  const std::string why = options.device == cuda_device ? "ranks on GPUs are processes"
                          : !options.launcher.empty()   ? std::string("--launcher makes them processes")
                          : options.processes_only ? fmt::format("--fabric {} makes them processes", options.fabric)
                                                   : listing.why_no_threads;
  return why.empty() ? std::string() : fmt::format("its ranks must be threads of one process: {}", why);
}

}  // namespace

WorldPlan world_of(const Listing& listing, const PlanOptions& options, int size) {
  require_in_range(options);
  require_known("device", options.device, {protocol::sim_device, cuda_device});
  require_known(
      "fabric", options.fabric,
      {protocol::shm_fabric, thread_fabric, protocol::nccl_fabric, protocol::tcp_fabric, protocol::mpi_fabric});
  require_known("times", options.times, {protocol::event_times, protocol::cupti_times});
  if ((options.device == cuda_device) != (options.fabric == protocol::nccl_fabric)) {
    throw CommandError(usage,
                       fmt::format("--device {} --fabric {}: --fabric {} goes with --device {}, and with nothing else",
                                   options.device, options.fabric, protocol::nccl_fabric, cuda_device));
  }
  if (options.fabric == protocol::mpi_fabric && options.launcher.empty()) {
    throw CommandError(usage, fmt::format("--fabric {} without --launcher: MPI's own launcher has to start the ranks; "
                                          "add --launcher 'mpirun -n {{ranks}}', or the command of your site "
                                          "(docs/clusters.md)",
                                          protocol::mpi_fabric));
  }
  require_threads(listing, options);
  const std::string subject = subject_name(listing, options.subject);
  if (!options.fault.empty()) require_fault(listing.faults, options.fault);
  WorldPlan world;
  world.size = size;
  world.fabric = options.fabric;
  world.scheduler = options.scheduler.value_or(protocol::Scheduler::seeded);
  world.device = options.device;
  if (options.device == cuda_device) world.backend = options.backend;
  if (options.fabric == protocol::mpi_fabric) world.mpi_modules = options.mpi_modules;
  world.times = options.times;
  if (options.supply) {
    world.skipped = why_too_large(*options.supply, size);
    world.unfit_for_timing = world.skipped.empty() ? why_unfit_for_timing(*options.supply, size) : "";
  }
  world.subject = subject;
  world.subject_library = options.subject_library;
  world.fault = options.fault;
  world.seed = options.seed;
  if (!options.timeout) world.ranks_per_core = ranks_per_core(size, options);
  world.case_timeout = options.timeout.value_or(usual_timeout * world.ranks_per_core);
  world.trace = options.trace;
  return world;
}

Plan plan(const Listing& listing, const PlanOptions& options) {
  world_of(listing, options, 1);  // errors in the settings come before errors in the filters

  std::vector<CaseInfo> cases = select_cases(listing, options);
  require_room(cases, options.fabric);
  require_gpus(cases, options);
  if (!options.scenario.empty()) require_one_drawn(cases, options.scenario);
  std::stable_sort(cases.begin(), cases.end(),
                   [](const CaseInfo& a, const CaseInfo& b) { return a.world_size < b.world_size; });
  keep_shard(cases, options.shard);

  Plan result;
  result.selected = cases.size();
  result.supply = options.supply;
  result.tap = options.tap;
  result.jobs = options.jobs;
  result.launcher = options.launcher;
  result.join_timeout = options.join_timeout;
  result.host_silence = options.host_silence;
  result.partial = lacks_usual_cases(cases, listing);
  // Cases that ask for threads get their own worlds, unless all ranks are threads anyway.
  const bool makes_threads = options.fabric == thread_fabric;
  const std::string skipped = makes_threads ? std::string() : why_no_threads(listing, options);
  PlanOptions with_threads = options;
  if (skipped.empty()) with_threads.fabric = thread_fabric;
  std::map<std::pair<int, bool>, std::vector<std::string>> by_world;
  std::map<std::string, std::chrono::milliseconds> timeouts;
  for (CaseInfo& info : cases) {
    const bool apart = info.on_threads && !makes_threads;
    if (info.timeout_ms > 0 && !options.timeout) {
      const int ranks = ranks_per_core(info.world_size, apart ? with_threads : options);
      timeouts[info.id] = std::chrono::milliseconds(info.timeout_ms) * ranks;
    }
    by_world[{info.world_size, apart}].push_back(std::move(info.id));
  }

  std::uint64_t random = options.seed;
  const auto add_world = [&](int size, bool apart, std::vector<std::string> ids) {
    WorldPlan& world = result.worlds.emplace_back(world_of(listing, apart ? with_threads : options, size));
    if (apart && !skipped.empty()) world.skipped = skipped;
    for (const std::string& id : ids) {
      if (const auto own = timeouts.find(id); own != timeouts.end()) world.timeouts.insert(*own);
    }
    world.planned = static_cast<int>(result.worlds.size()) - 1;
    world.cases = std::move(ids);
    if (!options.scenario.empty()) world.given.assign(world.cases.size(), std::filesystem::absolute(options.scenario));
  };
  for (auto& [kind, ids] : by_world) {
    const auto [size, apart] = kind;
    std::vector<std::string> all;
    all.reserve(ids.size() * static_cast<std::size_t>(options.repeat));
    for (int round = 0; round < options.repeat; ++round) {
      if (options.order == Order::random) shuffle(std::span(ids), random);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    if (options.isolate) {
      for (std::string& id : all) add_world(size, apart, {std::move(id)});
    } else {
      add_world(size, apart, std::move(all));
    }
  }
  return result;
}

WorldPlan continuation(const WorldPlan& lost, int number, std::size_t from) {
  WorldPlan fresh = lost;
  fresh.continues = protocol::Continuation{.world = number, .from = from};
  const auto cut = static_cast<std::ptrdiff_t>(from);
  fresh.cases.erase(fresh.cases.begin(), fresh.cases.begin() + cut);
  if (!fresh.given.empty()) fresh.given.erase(fresh.given.begin(), fresh.given.begin() + cut);
  return fresh;
}

WorldPlan retry_of(const WorldPlan& plan, const std::string& id) {
  WorldPlan again = plan;
  again.planned = -1;
  again.continues.reset();
  again.cases = {id};
  if (!again.given.empty()) again.given.resize(1);  // all cases of a run play the same given scenario
  ++again.attempt;
  return again;
}

}  // namespace shardproof::launcher
