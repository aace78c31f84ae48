#include "launcher/worker_client/mpi_modules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "launcher/launcher.hpp"
#include "launcher/process/home.hpp"

namespace shardproof::launcher {

std::filesystem::path mpi_module_folder() { return launcher_home() / "lib/shardproof"; }

std::vector<protocol::MpiLibrary> built_mpi_libraries(const std::filesystem::path& folder) {
  std::vector<protocol::MpiLibrary> built;
  std::ranges::copy_if(protocol::mpi_libraries, std::back_inserter(built), [&](const protocol::MpiLibrary& library) {
    std::error_code none;
    return std::filesystem::is_regular_file(folder / library.module, none);
  });
  return built;
}

void require_mpi_module(const std::filesystem::path& folder) {
  if (!built_mpi_libraries(folder).empty()) return;
  throw CommandError(
      usage, fmt::format("--fabric mpi: this build reaches no MPI library: {} has neither {} nor {}. Install the "
                         "package {} or {}, and build shardproof again, or use --fabric tcp",
                         folder.string(), protocol::open_mpi.module, protocol::mpich.module, protocol::open_mpi.package,
                         protocol::mpich.package));
}

}  // namespace shardproof::launcher
