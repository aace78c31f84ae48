#include "launcher/backend.hpp"

#include <fmt/format.h>

#include <utility>

#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

void find_backend(PlanOptions& options) {
  const bool is_asked_for = !options.backend.empty();
  options.backend = is_asked_for ? std::filesystem::absolute(options.backend) : built_backend();
  // A pipe, say, would hold up the worker that opens it.
  std::error_code unknown;
  if (std::filesystem::is_regular_file(options.backend, unknown)) return;
  throw CommandError(infrastructure,
                     is_asked_for ? fmt::format("--backend {}: there is no such file, or it is no ordinary one", options.backend.string())
                                  : fmt::format("--device {}: there is no {}; it is built where CMake finds the CUDA Toolkit and NCCL",
                                                options.device, options.backend.string()));
}

}  // namespace

std::filesystem::path built_backend() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/shardproof/libshardproof_cuda.so";
}

void find_gpus(const Worker& worker, PlanOptions& options, SignalWatch& signals) {
  if (options.device != cuda_device) return;
  find_backend(options);
  GpuSupply supply{.listing = ask_gpus(worker, options.backend, signals), .shared = options.share_gpus};
  if (supply.listing.gpus.empty())
    throw CommandError(infrastructure, fmt::format("--device {}: no GPUs: {}", options.device, supply.listing.why_none));
  if (options.times == cupti_times && !supply.listing.why_no_records.empty())
    throw CommandError(infrastructure, fmt::format("--times {}: {}", options.times, supply.listing.why_no_records));
  supply.listing.gpus = choose_gpus(supply.listing.gpus, options.gpus);
  options.supply = std::move(supply);
}

}  // namespace shardproof::launcher
