#include "launcher/backend.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "launcher/launcher.hpp"

namespace shardproof::launcher {

void find_backend(PlanOptions& options) {
  if (options.device != cuda_device) return;
  namespace fs = std::filesystem;
  const bool is_asked_for = !options.backend.empty();
  options.backend = is_asked_for ? fs::absolute(options.backend)
                                 : fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/shardproof/libshardproof_cuda.so";
  if (fs::exists(options.backend)) return;
  throw CommandError(infrastructure,
                     is_asked_for ? fmt::format("--backend {}: there is no such file", options.backend.string())
                                  : fmt::format("--device {}: there is no {}; it is built where CMake finds the CUDA Toolkit and NCCL",
                                                options.device, options.backend.string()));
}

}  // namespace shardproof::launcher
