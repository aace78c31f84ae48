#include "launcher/commands/diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "launcher/files/small_file.hpp"
#include "launcher/process/gpus.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/run/evidence.hpp"
#include "launcher/worker_client/mpi_modules.hpp"
#include "launcher/worker_client/subject.hpp"

namespace shardproof::launcher {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

/// The memory for a world of two ranks and one split, and for a world of 256 ranks.
constexpr std::uint64_t memory_for_small = 40 * mebibyte, memory_for_large = 64 * mebibyte;

std::uint64_t free_bytes(const struct statfs& facts) {
  return facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize);
}

std::optional<std::uint64_t> limit(__rlimit_resource resource) {
  rlimit found{};
  if (::getrlimit(resource, &found) != 0 || found.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return found.rlim_cur;
}

bool is_remote(const struct statfs& facts) {
  constexpr decltype(facts.f_type) cifs = 0xff534d42, lustre = 0x0bd00bd0, gpfs = 0x47504653, fuse = 0x65735546;
  return facts.f_type == NFS_SUPER_MAGIC || facts.f_type == cifs || facts.f_type == lustre || facts.f_type == gpfs ||
         facts.f_type == fuse;
}

std::filesystem::path find_nccl() {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
                             "/usr/local/lib", "/usr/local/cuda/lib64"}) {
    const std::filesystem::path library = std::filesystem::path(folder) / "libnccl.so.2";
    std::error_code none;
    if (std::filesystem::exists(library, none)) return library;
  }
  return {};
}

int count_gpus() {
  constexpr std::string_view prefix = "nvidia";
  std::error_code none;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
    const std::string name = entry.path().filename().string();
    // A container may have any of these devices.
    const bool is_numbered =
        name.size() > prefix.size() && name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
    if (name.starts_with(prefix) && is_numbered) ++count;
  }
  return count;
}

std::string in_mebibytes(std::uint64_t bytes) { return fmt::format("{} MiB", bytes / mebibyte); }

/// The pairs of GPUs without peer access, by their indices.
std::string unreachable_pairs_text(const std::vector<protocol::GpuInfo>& gpus) {
  auto pairs = protocol::unreachable_pairs(gpus);
  const auto index = [&](std::size_t place) { return static_cast<std::size_t>(gpus[place].index); };
  for (auto& [one, other] : pairs) std::tie(one, other) = std::pair(index(one), index(other));
  return protocol::pairs_text(pairs);
}

/// The version that pip recorded. Importing torch is not necessary.
std::string torch_version(const std::filesystem::path& environment) {
  constexpr std::string_view prefix = "torch-", suffix = ".dist-info";
  std::error_code none;
  for (const auto& python : std::filesystem::directory_iterator(environment / "lib", none)) {
    for (const auto& entry : std::filesystem::directory_iterator(python.path() / "site-packages", none)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(prefix) && name.ends_with(suffix))
        return name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    }
  }
  return {};
}

using Weight = Finding::Weight;

}  // namespace

MachineState inspect_machine(const std::filesystem::path& output) {
  MachineState machine;
  machine.cores = usable_cores();
  machine.online_cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  utsname system{};
  if (::uname(&system) == 0) machine.kernel = system.release;

  struct statfs facts{};
  if (::statfs("/dev/shm", &facts) == 0 && facts.f_type == TMPFS_MAGIC && ::access("/dev/shm", W_OK | X_OK) == 0) {
    machine.memory = "/dev/shm";
    machine.memory_free = free_bytes(facts);
  }
  machine.output = output;
  if (::statfs(output.c_str(), &facts) == 0) {
    machine.output_free = free_bytes(facts);
    machine.output_is_remote = is_remote(facts);
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    machine.open_files = files.rlim_cur;
    machine.most_open_files = files.rlim_max;
  }
  machine.processes = limit(RLIMIT_NPROC);
  machine.file_size = limit(RLIMIT_FSIZE);
  if (const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope"); !scope.empty())
    machine.ptrace_scope = std::atoi(scope.c_str());
  if (const auto tool = find_stack_tool(std::getenv("PATH"))) machine.stack_tool = tool->program.string();
  machine.lists_children = ::access("/proc/thread-self/children", R_OK) == 0;
  const std::filesystem::path pytorch = pytorch_worker();
  const std::filesystem::path environment = pytorch.parent_path().parent_path();
  if (std::error_code none; std::filesystem::exists(pytorch, none)) {
    machine.pytorch = environment;
    machine.pytorch_version = torch_version(environment);
  } else if (names_pytorch()) {
    machine.missing_pytorch = environment;
  }
  machine.mpi = built_mpi_libraries(mpi_module_folder());
  machine.gpus = count_gpus();
  machine.driver = driver_version();
  machine.nccl = find_nccl();
  return machine;
}

std::vector<Finding> diagnose(const MachineState& machine) {
  std::vector<Finding> findings;
  const auto add = [&](Weight weight, std::string what, std::string why = {}) {
    findings.push_back({weight, std::move(what), weight == Weight::fine ? std::string() : std::move(why)});
  };

  int major = 0, minor = 0;
  const bool is_known = std::sscanf(machine.kernel.c_str(), "%d.%d", &major, &minor) == 2;
  const bool is_old = is_known && (major < 5 || (major == 5 && minor < 3));
  add(is_old ? Weight::prevents : Weight::fine, fmt::format("kernel: Linux {}", machine.kernel),
      "ranks are waited for by pidfd_open, which came with Linux 5.3");

  add(machine.cores == 1 ? Weight::hurts : Weight::fine,
      fmt::format("cores: {} of {}", machine.cores, machine.online_cores),
      "ranks take turns on one core: worlds work, and are slow; times of cases are stretched by that. taskset, a "
      "cpuset or the batch system's --cpus-per-task gives more");

  if (machine.memory.empty()) {
    add(Weight::hurts, "memory file system: none",
        "ranks meet on a disk instead, in TMPDIR or /tmp. A container gets one by --shm-size=1g or --tmpfs /dev/shm");
  } else {
    const Weight weight = machine.memory_free < memory_for_large ? Weight::hurts : Weight::fine;
    add(weight,
        fmt::format("memory file system: {}, {} free", machine.memory.string(), in_mebibytes(machine.memory_free)),
        fmt::format("{} Larger worlds meet on a disk instead. A container has more by --shm-size=1g, a host by mount "
                    "-o remount,size=1g {}",
                    machine.memory_free < memory_for_small ? "too little for two ranks." : "enough for small worlds.",
                    machine.memory.string()));
  }

  const bool is_full = machine.output_free < 16 * mebibyte;
  add(is_full || machine.output_is_remote ? Weight::hurts : Weight::fine,
      fmt::format("output: {}, {} free{}", machine.output.string(), in_mebibytes(machine.output_free),
                  machine.output_is_remote ? ", on a network" : ""),
      is_full ? "a run that cannot write its report ends with 2: free some, or name another place by --out"
              : "every event of every rank is flushed: --out on a local disk is quicker");

  const bool is_tight = machine.most_open_files < 1024 + 64;
  add(machine.most_open_files < 66 ? Weight::prevents
      : is_tight                   ? Weight::hurts
                                   : Weight::fine,
      fmt::format("open files: {}, and {} at most", machine.open_files, machine.most_open_files),
      fmt::format("each rank costs the launcher one: worlds of up to {} ranks. `ulimit -Hn`, limits.conf or the "
                  "service's LimitNOFILE= raises it",
                  machine.most_open_files < 64 ? 0 : machine.most_open_files - 64));

  if (machine.processes) {
    add(*machine.processes < 1100 ? Weight::hurts : Weight::fine,
        fmt::format("processes of this user: {} at most", *machine.processes),
        "a world of more ranks cannot be started; `ulimit -u` raises it");
  }
  if (machine.file_size) {
    add(*machine.file_size < 64 * mebibyte ? Weight::hurts : Weight::fine,
        fmt::format("length of a file: {} at most", in_mebibytes(*machine.file_size)),
        "streams and logs of a long run are longer, and the run then ends with 2; `ulimit -f unlimited` lifts it");
  }

  const bool may_look = !machine.ptrace_scope || *machine.ptrace_scope < 2;
  if (machine.stack_tool.empty()) {
    add(Weight::hurts, "stacks of ranks that hang: no tool",
        "install elfutils (eu-stack, 10 ms a rank) or gdb (300 ms)");
  } else {
    add(may_look ? Weight::fine : Weight::hurts,
        fmt::format("stacks of ranks that hang: {}{}", machine.stack_tool,
                    machine.ptrace_scope ? fmt::format(", ptrace_scope {}", *machine.ptrace_scope) : ""),
        "no process may look at another: sysctl kernel.yama.ptrace_scope=1 lets the launcher look at its ranks");
  }
  add(machine.lists_children ? Weight::fine : Weight::hurts,
      fmt::format("processes that ranks leave behind: {}", machine.lists_children ? "found" : "not found"),
      "the kernel was built without CONFIG_PROC_CHILDREN: daemons that a case starts stay");

  if (!machine.missing_pytorch.empty()) {
    add(Weight::hurts, fmt::format("PyTorch: none in {}", machine.missing_pytorch.string()),
        "--subject pytorch does not run: SHARDPROOF_PYTORCH names a folder without bin/shardproof-pytorch-worker");
  } else if (machine.pytorch.empty()) {
    add(Weight::fine, "PyTorch: none; `./run --subject pytorch` installs it into a private environment");
  } else {
    const std::string& version = machine.pytorch_version;
    add(version.empty() ? Weight::hurts : Weight::fine,
        fmt::format("PyTorch: {} in {}", version.empty() ? "none" : version, machine.pytorch.string()),
        "--subject pytorch does not run: its worker is there, and torch is not. `./run --subject pytorch` installs "
        "it, or that environment's pip");
  }

  std::vector<std::string_view> libraries;
  std::ranges::transform(machine.mpi, std::back_inserter(libraries), &protocol::MpiLibrary::name);
  add(libraries.empty() ? Weight::note : Weight::fine,
      fmt::format("MPI: {}", libraries.empty() ? "none" : fmt::format("{}", fmt::join(libraries, ", "))),
      fmt::format("--fabric mpi does not run: install {} or {}, and build shardproof again", protocol::open_mpi.package,
                  protocol::mpich.package));

  const Weight without_gpus = machine.needs_gpus ? Weight::prevents : Weight::hurts;
  if (!machine.gpu_trouble.empty()) {
    add(without_gpus, "GPUs: unknown", fmt::format("--device cuda does not run: {}", machine.gpu_trouble));
  } else if (machine.gpu_listing && machine.gpu_listing->gpus.empty()) {
    add(machine.needs_gpus ? Weight::prevents : Weight::note, "GPUs: none; worlds run on the simulated device",
        fmt::format("--device cuda does not run: {}", machine.gpu_listing->why_none));
  } else if (machine.gpu_listing) {
    std::string versions;
    for (const auto& [name, version] : gpu_facts(*machine.gpu_listing))
      versions += fmt::format(", {} {}", name, version);
    add(Weight::fine, fmt::format("GPUs: {}{}", models_text(machine.gpu_listing->gpus), versions));
    if (const std::string pairs = unreachable_pairs_text(machine.gpu_listing->gpus); !pairs.empty()) {
      add(Weight::hurts, fmt::format("GPUs that cannot reach each other's memory: {}", pairs),
          "what they exchange goes by way of the host. `nvidia-smi topo -p2p r` says why: an IOMMU, ACS, or "
          "different sides of the machine");
    }
    for (const protocol::GpuInfo& gpu : machine.gpu_listing->gpus) {
      if (!gpu.slowed_by || gpu.slowed_by->empty()) continue;
      add(Weight::hurts, fmt::format("GPU {}: slowed by {}", gpu.index, fmt::join(*gpu.slowed_by, ", ")),
          "durations on it are longer than they could be; `nvidia-smi -q -d PERFORMANCE` says more");
    }
  } else if (machine.gpus == 0) {
    add(Weight::fine, "GPU: none; worlds run on the simulated device");
  } else {
    add(machine.driver.empty() ? Weight::hurts : Weight::fine,
        fmt::format("GPU: {}{}{}", machine.gpus, machine.driver.empty() ? "" : ", ", machine.driver),
        "devices without a driver: load the module nvidia");
    add(machine.nccl.empty() ? Weight::hurts : Weight::fine,
        fmt::format("NCCL: {}", machine.nccl.empty() ? "none" : machine.nccl.string()),
        "libnccl.so.2 is not where the loader looks: install libnccl2, or set LD_LIBRARY_PATH");
  }
  return findings;
}

}  // namespace shardproof::launcher
