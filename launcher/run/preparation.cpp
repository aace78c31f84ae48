#include "launcher/run/preparation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "launcher/launcher.hpp"
#include "launcher/process/home.hpp"
#include "launcher/worker_client/backend.hpp"
#include "launcher/worker_client/subject.hpp"
#include "launcher/worker_client/warm_process.hpp"

namespace shardproof::launcher {
namespace {

void find_backend(PlanOptions& options) {
  if (!options.backend.empty()) {
    options.backend = named_backend(options.backend);
    return;
  }
  options.backend = built_backend();
  std::error_code unknown;
  if (std::filesystem::is_regular_file(options.backend, unknown)) return;
  const OptionalPart part{.name = "the GPU backend", .target = "shardproof_cuda", .file = options.backend};
  throw CommandError(infrastructure,
                     fmt::format("--device {}: {}", options.device, why_missing(part, launcher_home())));
}

/// A script may read the variables of its rank, and a copy would not run it.
bool is_script(const std::filesystem::path& program) {
  std::ifstream file(program, std::ios::binary);
  return file.get() == '#' && file.get() == '!';
}

/// For the report only: ranks may be on other hosts, and this one may have no GPU, or a driver that does not work.
protocol::GpuListing own_gpus(const Worker& worker, const PlanOptions& options, SignalWatch& signals) {
  try {
    return ask_gpus(worker, options.backend, signals);
  } catch (const CommandError& error) {
    if (error.is_interrupt()) throw;
    protocol::GpuListing none;
    none.why_none = error.what();
    return none;
  }
}

}  // namespace

Worker find_subject(PlanOptions& options, const std::filesystem::path& worker, SignalWatch& signals) {
  ChosenSubject chosen = choose_subject(options.subject, worker, signals);
  options.subject = std::move(chosen.name);
  options.subject_library = std::move(chosen.library);
  return std::move(chosen.worker);
}

void find_gpus(const Worker& worker, PlanOptions& options, SignalWatch& signals) {
  if (options.device != protocol::cuda_device) return;
  find_backend(options);
  if (!options.launcher.empty()) {
    options.supply = GpuSupply{.listing = own_gpus(worker, options, signals),
                               .by_guards = GpuTerms{.choice = options.gpus,
                                                     .shared = options.share_gpus,
                                                     .needs_records = options.times == protocol::cupti_times}};
    return;
  }
  GpuSupply supply{
      .listing = ask_gpus(worker, options.backend, signals), .shared = options.share_gpus, .by_guards = {}};
  if (supply.listing.gpus.empty())
    throw CommandError(infrastructure,
                       fmt::format("--device {}: no GPUs: {}", options.device, supply.listing.why_none));
  if (options.times == protocol::cupti_times && !supply.listing.why_no_records.empty())
    throw CommandError(infrastructure, fmt::format("--times {}: {}", options.times, supply.listing.why_no_records));
  supply.listing.gpus = choose_gpus(supply.listing.gpus, options.gpus);
  options.supply = std::move(supply);
}

void warm_up(Worker& worker, const PlanOptions& options, const std::filesystem::path& log, SignalWatch& signals) {
  if (!worker.cache_variable.empty())
    worker.environment.push_back(fmt::format("{}={}", worker.cache_variable, (log.parent_path() / "cache").string()));
  if (options.copies == Copies::none || options.tap || !options.launcher.empty()) return;
  const auto subject = std::ranges::find(worker.listing.subjects, options.subject, &protocol::SubjectInfo::name);
  if (subject != worker.listing.subjects.end() && subject->warm) {
    const std::string named = options.subject_library.empty() ? options.subject : options.subject_library.string();
    worker.warm = std::make_shared<WarmProcess>(worker, named, log, signals);
  } else {
    // A process that has used a GPU cannot be copied, and each rank has other variables for its GPU.
    const bool is_on_gpus = options.device == protocol::cuda_device;
    if (options.copies != Copies::all || is_on_gpus || !worker.listing.warm || is_script(worker.program)) return;
    worker.warm = std::make_shared<WarmProcess>(worker, log, signals);
  }
  worker.started.push_back(worker.warm->pid());
}

}  // namespace shardproof::launcher
