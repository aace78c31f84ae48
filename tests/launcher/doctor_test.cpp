#include "launcher/commands/diagnosis.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace shardproof::launcher;
using Catch::Matchers::ContainsSubstring;
using Weight = Finding::Weight;

namespace {

MachineState healthy() {
  return {.cores = 8,
          .online_cores = 8,
          .kernel = "6.1.0-13-amd64",
          .memory = "/dev/shm",
          .memory_free = std::uint64_t{1} << 30,
          .output = "/work",
          .output_free = std::uint64_t{1} << 40,
          .output_is_remote = false,
          .open_files = 1024,
          .most_open_files = 1048576,
          .processes = std::nullopt,
          .file_size = std::nullopt,
          .ptrace_scope = std::nullopt,
          .stack_tool = "/usr/bin/eu-stack",
          .lists_children = true,
          .gpus = 0,
          .driver = "",
          .mpi = {shardproof::protocol::open_mpi, shardproof::protocol::mpich},
          .nccl = ""};
}

/// The one thing that is not fine with a machine that is healthy otherwise.
template <class Spoil>
Finding ailment(Spoil spoil) {
  MachineState machine = healthy();
  spoil(machine);
  const auto findings = diagnose(machine);
  const auto is_fine = [](const Finding& finding) { return finding.weight == Weight::fine; };
  REQUIRE(std::ranges::count_if(findings, is_fine) == std::ssize(findings) - 1);
  return *std::ranges::find_if_not(findings, is_fine);
}

}  // namespace

TEST_CASE("the doctor finds nothing to repair on a healthy machine") {
  for (const Finding& finding : diagnose(healthy())) {
    INFO(finding.what);
    CHECK(finding.weight == Weight::fine);
    CHECK(finding.why.empty());
  }
}

TEST_CASE("the doctor reports each problem with its consequence and its repair") {
  const auto check = [](Weight weight, const char* what, const char* remedy, auto spoil) {
    const Finding finding = ailment(spoil);
    CHECK(finding.weight == weight);
    CHECK_THAT(finding.what, ContainsSubstring(what));
    CHECK_THAT(finding.why, ContainsSubstring(remedy));
  };
  check(Weight::prevents, "Linux 5.2", "5.3", [](MachineState& m) { m.kernel = "5.2.9"; });
  check(Weight::hurts, "cores: 1 of 8", "--cpus-per-task", [](MachineState& m) { m.cores = 1; });
  check(Weight::hurts, "memory file system: none", "--shm-size", [](MachineState& m) { m.memory.clear(); });
  check(Weight::hurts, "/dev/shm, 50 MiB free", "enough for small worlds",
        [](MachineState& m) { m.memory_free = 50 << 20; });
  check(Weight::hurts, "/dev/shm, 9 MiB free", "too little for two ranks",
        [](MachineState& m) { m.memory_free = 9 << 20; });
  check(Weight::hurts, "0 MiB free", "--out", [](MachineState& m) { m.output_free = 1000; });
  check(Weight::hurts, "on a network", "local disk", [](MachineState& m) { m.output_is_remote = true; });
  check(Weight::hurts, "open files: 256, and 256 at most", "up to 192 ranks",
        [](MachineState& m) { m.open_files = m.most_open_files = 256; });
  check(Weight::prevents, "10 at most", "up to 0 ranks", [](MachineState& m) { m.most_open_files = 10; });
  check(Weight::hurts, "processes of this user: 100", "ulimit -u", [](MachineState& m) { m.processes = 100; });
  check(Weight::hurts, "length of a file: 1 MiB", "ulimit -f", [](MachineState& m) { m.file_size = 1 << 20; });
  check(Weight::hurts, "no tool", "elfutils", [](MachineState& m) { m.stack_tool.clear(); });
  check(Weight::hurts, "ptrace_scope 3", "kernel.yama.ptrace_scope=1", [](MachineState& m) { m.ptrace_scope = 3; });
  check(Weight::hurts, "not found", "CONFIG_PROC_CHILDREN", [](MachineState& m) { m.lists_children = false; });
  check(Weight::hurts, "GPU: 2", "nvidia", [](MachineState& m) {
    m.gpus = 2;
    m.nccl = "/usr/lib/libnccl.so.2";
  });
  check(Weight::hurts, "NCCL: none", "libnccl2", [](MachineState& m) {
    m.gpus = 2;
    m.driver = "NVRM version: 570";
  });
}

TEST_CASE("the doctor names the MPI libraries that a build reaches") {
  MachineState machine = healthy();
  const auto found = [&] {
    const std::vector<Finding> findings = diagnose(machine);
    return *std::ranges::find_if(findings, [](const Finding& finding) { return finding.what.starts_with("MPI: "); });
  };
  CHECK(found().what == "MPI: Open MPI, MPICH");
  machine.mpi.pop_back();
  CHECK(found().what == "MPI: Open MPI");
  machine.mpi.clear();
  CHECK(found().weight == Weight::note);
  CHECK(found().what == "MPI: none");
  CHECK(found().why == "--fabric mpi does not run: install libopenmpi-dev or libmpich-dev, and build shardproof again");
}

TEST_CASE("a missing GPU is a note, unless a run needs one") {
  MachineState machine = healthy();
  machine.gpu_listing.emplace().why_none = "there is no NVIDIA driver here";
  const auto found = [&] {
    const std::vector<Finding> findings = diagnose(machine);
    const auto gpus = std::ranges::find(findings, "GPUs: none; worlds run on the simulated device", &Finding::what);
    REQUIRE(gpus != findings.end());
    CHECK(gpus->why == "--device cuda does not run: there is no NVIDIA driver here");
    return gpus->weight;
  };
  CHECK(found() == Weight::note);
  machine.needs_gpus = true;
  CHECK(found() == Weight::prevents);
}

TEST_CASE(
    "of GPUs, the doctor names those that cannot reach each other and those that are slowed, and nothing where nothing "
    "is known") {
  MachineState machine = healthy();
  shardproof::protocol::GpuListing& listing = machine.gpu_listing.emplace();
  listing.backend = "CUDA";
  for (const int index : {0, 3}) {
    shardproof::protocol::GpuInfo& gpu = listing.gpus.emplace_back();
    gpu.index = index;
    gpu.uuid = "GPU-" + std::to_string(index);
    gpu.name = "model";
  }
  const auto hurting = [&] {
    std::vector<std::string> all;
    for (const Finding& finding : diagnose(machine)) {
      if (finding.weight != Weight::fine) all.push_back(finding.what);
    }
    return all;
  };
  CHECK(hurting().empty());
  listing.gpus[0].peers = {
      {.uuid = "GPU-3", .can_access = false, .performance_rank = {}, .native_atomics = {}, .nvlink = {}, .pci = ""}};
  listing.gpus[0].slowed_by.emplace();  // by nothing
  listing.gpus[1].slowed_by = {"power cap", "heat (hardware)"};
  CHECK(hurting() == std::vector<std::string>{"GPUs that cannot reach each other's memory: 0 and 3",
                                              "GPU 3: slowed by power cap, heat (hardware)"});
}

TEST_CASE("the machine that this runs on can be looked at") {
  const MachineState machine = inspect_machine(std::filesystem::current_path());
  CHECK(machine.cores > 0);
  CHECK(machine.online_cores >= machine.cores);
  CHECK_FALSE(machine.kernel.empty());
  CHECK(machine.most_open_files > 0);
}
