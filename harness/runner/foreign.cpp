#include "harness/runner/foreign.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <stdexcept>
#include <system_error>

#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/control/control_page.hpp"
#include "harness/control/doorbell.hpp"  // DeadlineExceeded
#include "harness/protocol/case_filter.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/rendezvous/file_store.hpp"

namespace shardproof::runner {

using protocol::CaseInfo;

namespace {

// Ranks find the plan here before they know a world. It is not inside `worlds/0`, because rank 0 creates that directory
// exclusively.
std::filesystem::path meeting_place(const protocol::RunDirectory& run) { return run.root / "meeting"; }

std::string random_nonce() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

std::vector<std::string> selected_ids(const std::vector<CaseInfo>& cases, int world_size,
                                      const std::vector<std::string>& filters) {
  std::vector<CaseInfo> of_size;
  std::ranges::copy_if(cases, std::back_inserter(of_size),
                       [&](const CaseInfo& info) { return info.world_size == world_size; });
  if (of_size.empty()) {
    std::set<int> sizes;
    for (const CaseInfo& info : cases) sizes.insert(info.world_size);
    throw UsageError(fmt::format("this program has no case for {} ranks; it has cases for {}", world_size,
                                 sizes.empty() ? "no number of ranks" : fmt::format("{}", fmt::join(sizes, ", "))));
  }
  std::vector<std::string> ids;
  try {
    for (CaseInfo& info : protocol::select(of_size, filters)) ids.push_back(std::move(info.id));
  } catch (const std::invalid_argument& error) {
    throw UsageError(fmt::format("of the cases for {} ranks: {}", world_size, error.what()));
  }
  return ids;
}

/// Takes the run directory for this start of these ranks, and in it this rank's place. No rank reads what an earlier
/// run has left. The first job to come stays. MPICH gives its jobs no name. So ranks of two jobs that start at once may
/// each get a place. Then some ranks of each job are refused, and the others are one world: of both jobs, if all its
/// places are taken.
void claim(rendezvous::FileStore& meeting, const protocol::RunDirectory& run, const protocol::Identity& identity,
           control::Deadline deadline) {
  const auto claim_key = [&](const std::string& key, const std::string& value, bool is_shared) {
    try {
      meeting.put(key, value);
    } catch (const rendezvous::KeyExists&) {
      const std::string first = meeting.wait(key, deadline);
      if (is_shared && first == value) return;
      throw std::runtime_error(fmt::format(
          "{} holds an earlier run, or another run uses it now ({}; this is {}): give every run a fresh --run-dir",
          run.root.string(), first, value));
    }
  };
  std::string job = fmt::format("{} ranks of {}", identity.world_size, identity.launcher);
  if (!identity.job.empty()) job += ", " + identity.job;
  claim_key("job", job, true);
  claim_key(fmt::format("rank/{}", identity.rank),
            fmt::format("rank {}, process {} on {}", identity.rank, ::getpid(), protocol::host_name()), false);
}

void write_whole(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::trunc);
  out << text << '\n';
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), "write " + file.string());
}

}  // namespace

ForeignWorld::ForeignWorld(const protocol::Identity& identity, const CommandLine& line,
                           const protocol::Listing& listing, std::chrono::milliseconds for_first_to_come) {
  // Ranks may start in different directories.
  const protocol::RunDirectory run{std::filesystem::absolute(line.run_directory)};
  plan_.size = identity.world_size;
  plan_.directory = run.world(0).root;
  plan_.seed = line.seed;
  // This comes before anything is made or waited for, so that every rank reports by itself that it was started wrongly.
  plan_.cases = selected_ids(listing.cases, plan_.size, line.filters);
  rendezvous::FileStore meeting(meeting_place(run), "foreign launcher", identity.rank);
  const auto deadline = std::chrono::steady_clock::now() + for_first_to_come;
  claim(meeting, run, identity, deadline);
  if (identity.rank == 0) {
    try {
      make(line, listing);
      meeting.put("host", protocol::host_name());
      meeting.put("plan", base::dump_line(plan_));
    } catch (const std::exception& error) {
      meeting.poison(error.what());  // the others wait for the plan
      throw;
    }
    return;
  }
  try {
    plan_ = base::parse_json(meeting.wait("plan", deadline)).get<protocol::WorldPlan>();
  } catch (const control::DeadlineExceeded&) {
    throw std::runtime_error(fmt::format(
        "rank {} on {}: rank 0 of {} has not begun in {} within {} s: did the launcher start it, with this --run-dir?",
        identity.rank, protocol::host_name(), identity.world_size, run.root.string(),
        std::chrono::duration<double>(for_first_to_come).count()));
  }
  const std::string host_of_first = meeting.wait("host", deadline);
  if (!std::filesystem::exists(plan_.rendezvous)) {
    throw std::runtime_error(fmt::format(
        "rank {} on {} cannot see {}, which rank 0 made on {}: the fabric {} reaches one host; start all ranks on "
        "one host, or use `shardproof run --launcher` with --fabric tcp (docs/clusters.md)",
        identity.rank, protocol::host_name(), plan_.rendezvous.string(), host_of_first, plan_.fabric));
  }
}

void ForeignWorld::make(const CommandLine& line, const protocol::Listing& listing) {
  plan_.subject_library = line.subject_library;
  plan_.subject = !line.subject.empty() || listing.subjects.empty() ? line.subject : listing.subjects.front().name;
  plan_.nonce = random_nonce();
  std::filesystem::create_directories(plan_.directory.parent_path());
  if (!std::filesystem::create_directory(plan_.directory)) {
    throw std::runtime_error(fmt::format("{} exists: give every run a fresh --run-dir", plan_.directory.string()));
  }
  rendezvous_.emplace(rendezvous::RendezvousDirectory::make(plan_.size));
  plan_.rendezvous = rendezvous_->path();
  control::ControlPage::create(plan_.rendezvous / "control", plan_.size, plan_.nonce);
  write_whole(protocol::RunDirectory{line.run_directory}.root / "listing.json", base::dump_line(listing));
  write_whole(protocol::WorldDirectory{plan_.directory}.plan(), base::dump_document(plan_));
}

}  // namespace shardproof::runner
