#include "launcher/worker_client/backend.hpp"

#include <fmt/format.h>

#include <utility>

#include "launcher/launcher.hpp"
#include "launcher/process/home.hpp"

namespace shardproof::launcher {
namespace {

/// A special file, such as a pipe, would block the worker that opens it.
bool is_ordinary(const std::filesystem::path& file) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(file, unknown);
}

void find_backend(PlanOptions& options) {
  if (!options.backend.empty()) {
    options.backend = named_backend(options.backend);
    return;
  }
  options.backend = built_backend();
  if (is_ordinary(options.backend)) return;
  const OptionalPart part{.name = "the GPU backend", .target = "shardproof_cuda", .file = options.backend};
  throw CommandError(infrastructure,
                     fmt::format("--device {}: {}", options.device, why_missing(part, launcher_home())));
}

}  // namespace

std::filesystem::path built_backend() { return launcher_home() / "lib/shardproof/libshardproof_cuda.so"; }

std::filesystem::path named_backend(const std::filesystem::path& asked) {
  std::filesystem::path file = std::filesystem::absolute(asked);
  if (!is_ordinary(file))
    throw CommandError(usage,
                       fmt::format("--backend {}: there is no such file, or it is no ordinary one", file.string()));
  return file;
}

void find_gpus(const Worker& worker, PlanOptions& options, SignalWatch& signals) {
  if (options.device != cuda_device) return;
  find_backend(options);
  GpuSupply supply{.listing = ask_gpus(worker, options.backend, signals), .shared = options.share_gpus};
  if (supply.listing.gpus.empty())
    throw CommandError(infrastructure,
                       fmt::format("--device {}: no GPUs: {}", options.device, supply.listing.why_none));
  if (options.times == cupti_times && !supply.listing.why_no_records.empty())
    throw CommandError(infrastructure, fmt::format("--times {}: {}", options.times, supply.listing.why_no_records));
  supply.listing.gpus = choose_gpus(supply.listing.gpus, options.gpus);
  options.supply = std::move(supply);
}

}  // namespace shardproof::launcher
