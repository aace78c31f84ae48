// The GPUs that a run may have, the GPUs that a world gets, and the variables of its ranks.
#include "launcher/process/gpus.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/control/link/message.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/worker_client/worker.hpp"
#include "tests/launcher/refusal.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

GpuSupply supply(int count, bool shared = false, int nccl = 22809) {
  GpuSupply result;
  result.listing.backend = "some CUDA";
  result.listing.driver = result.listing.runtime = 13000;
  result.listing.nccl = nccl;
  for (int index = 0; index < count; ++index) {
    protocol::GpuInfo& gpu = result.listing.gpus.emplace_back();
    gpu.index = index;
    gpu.uuid = "GPU-" + std::string(1, static_cast<char>('a' + index)) + "0";
    gpu.name = index < 2 ? "model A" : "model B";
  }
  result.shared = shared;
  return result;
}

std::vector<std::string> chosen(const GpuChoice& choice) {
  std::vector<std::string> uuids;
  for (const protocol::GpuInfo& gpu : choose_gpus(supply(3).listing.gpus, choice)) uuids.push_back(gpu.uuid);
  return uuids;
}

protocol::Listing sizes(std::vector<int> all) {
  protocol::Listing listing;
  for (const int size : all) {
    protocol::CaseInfo& info = listing.cases.emplace_back();
    info.params = {{"W", std::to_string(size)}};
    info.id = protocol::case_id("a/b", info.params);
    info.suite = "a";
    info.world_size = size;
  }
  return listing;
}

PlanOptions on_gpus(int count, bool shared = false) {
  PlanOptions options;
  options.device = protocol::cuda_device;
  options.fabric = protocol::nccl_fabric;
  options.supply = supply(count, shared);
  return options;
}

std::filesystem::path program(const TemporaryDirectory& directory, const std::string& text) {
  const std::filesystem::path file = directory / "program";
  write_text(file, "#!/bin/sh\n" + text + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

std::string unknown_gpus(const std::string& text, std::chrono::milliseconds time_limit = worker_time_limit) {
  const TemporaryDirectory directory;
  SignalWatch signals;
  try {
    ask_gpus(find_worker(program(directory, text)), "/some/backend.so", signals, time_limit);
  } catch (const CommandError& error) {
    CHECK(error.code() == infrastructure);
    const std::string why = error.what();
    CHECK(why.find('\n') == std::string::npos);
    return why;
  }
  return "accepted";
}

/// A rank's guard on this host, and the GPUs of the host that it finds. No two hosts have the same GPU.
GuardGpus guard(const std::string& host, const std::vector<int>& gpus, int nccl = 22809) {
  GuardGpus found{.host = host, .machine = host, .listing = supply(0, false, nccl).listing};
  for (const int gpu : gpus) {
    protocol::GpuInfo& info = found.listing.gpus.emplace_back();
    info.index = static_cast<int>(found.listing.gpus.size()) - 1;
    info.uuid = "GPU-" + host + std::to_string(gpu);
  }
  return found;
}

std::vector<std::string> assigned(const std::vector<GuardGpus>& guards, const GpuTerms& terms = {}) {
  return assign_gpus(guards, terms).uuids;
}

std::string refused(const std::vector<GuardGpus>& guards, const GpuTerms& terms = {}) {
  try {
    assign_gpus(guards, terms);
  } catch (const CommandError& error) {
    return error.what();
  }
  return "accepted";
}

using Uuids = std::vector<std::string>;

}  // namespace

TEST_CASE("ranks get the GPUs that CTest reserves for a test") {
  std::map<std::string, std::string> variables;
  const auto reserved = [&] {
    return gpus_of_ctest([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  CHECK_FALSE(reserved());
  variables = {{"CTEST_RESOURCE_GROUP_COUNT", "1"},
               {"CTEST_RESOURCE_GROUP_0", "licences"},
               {"CTEST_RESOURCE_GROUP_0_LICENCES", "id:0,slots:1"}};
  CHECK_FALSE(reserved());
  variables = {{"CTEST_RESOURCE_GROUP_COUNT", "3"},
               {"CTEST_RESOURCE_GROUP_0", "gpus"},
               {"CTEST_RESOURCE_GROUP_0_GPUS", "id:2,slots:1;id:10,slots:1"},
               {"CTEST_RESOURCE_GROUP_1_GPUS", "id:0,slots:1"},
               {"CTEST_RESOURCE_GROUP_2_GPUS", "id:2,slots:1"}};
  REQUIRE(reserved());
  CHECK(reserved()->names == std::vector<std::string>{"2", "10", "0"});
  CHECK_FALSE(reserved()->count);
}

TEST_CASE("all GPUs, the first ones, or those that are named, in that order") {
  CHECK(chosen({}) == std::vector<std::string>{"GPU-a0", "GPU-b0", "GPU-c0"});
  CHECK(chosen({.count = 2, .names = {}}) == std::vector<std::string>{"GPU-a0", "GPU-b0"});
  CHECK(chosen({.count = {}, .names = {"2", "GPU-a"}}) == std::vector<std::string>{"GPU-c0", "GPU-a0"});
  CHECK(refusal([] { chosen({.count = 4, .names = {}}); }) == "--gpus 4: there are 3 GPUs");
  CHECK(refusal([] { chosen({.count = {}, .names = {"3"}}); }) ==
        "--gpus 3: no such GPU; choose from 0 (GPU-a0), 1 (GPU-b0), 2 (GPU-c0)");
  CHECK_THAT(refusal([] { chosen({.count = {}, .names = {"GPU-"}}); }),
             ContainsSubstring("several UUIDs begin like this"));
  CHECK(refusal([] { chosen({.count = {}, .names = {"0", "GPU-a"}}); }) ==
        "--gpus GPU-a: GPU 0 (GPU-a0) is named twice");
}

TEST_CASE("no GPU is lent to two worlds at a time") {
  GpuPool pool(supply(3));
  const auto first = pool.take(2);
  REQUIRE(first);
  CHECK(*first == std::vector<std::string>{"GPU-a0", "GPU-b0"});
  CHECK_FALSE(pool.take(2));
  CHECK(pool.take(1) == std::vector<std::string>{"GPU-c0"});
  CHECK_FALSE(pool.take(1));
  pool.give_back(*first);
  CHECK(pool.take(2) == first);
}

TEST_CASE("a world that is larger than the pool takes all of it, and its ranks take turns") {
  GpuPool pool(supply(2, true));
  CHECK(pool.take(5) == std::vector<std::string>{"GPU-a0", "GPU-b0", "GPU-a0", "GPU-b0", "GPU-a0"});
  CHECK_FALSE(pool.take(1));
}

TEST_CASE("each rank gets the first GPU of its guard's list that no earlier rank has") {
  const GuardGpus n0 = guard("n0", {0, 1, 2}), n1 = guard("n1", {0, 1, 2});
  CHECK(assigned({n0, n0}) == Uuids{"GPU-n00", "GPU-n01"});
  CHECK(assigned({n0, n1, n0, n1, n1}) == Uuids{"GPU-n00", "GPU-n10", "GPU-n01", "GPU-n11", "GPU-n12"});
  // Slurm may show each task other GPUs.
  CHECK(assigned({guard("n0", {2}), guard("n0", {0}), guard("n0", {2, 0, 1})}) ==
        Uuids{"GPU-n02", "GPU-n00", "GPU-n01"});
  const GpuAssignment one = assign_gpus(std::vector{n0, n1}, {});
  CHECK(one.nccl == 22809);
  CHECK(one.unfit_for_timing.empty());
}

TEST_CASE("the same uuid on two machines is two GPUs, and in two containers of one machine it is one GPU") {
  GuardGpus first = guard("n0", {0, 1}), second = first;
  second.host = "n1";
  CHECK(assigned({first, second}) == Uuids{"GPU-n00", "GPU-n01"});
  CHECK(refused({first, second, second}) ==
        "no GPU is left for rank 2 on n1: ranks 0…2 on this machine may use 2 GPUs, and each rank needs its own; start "
        "fewer ranks on each host, on more hosts, or let ranks share GPUs (--share-gpus)");
  second.machine = "n1";
  const GpuAssignment apart = assign_gpus(std::vector{first, second}, {});
  CHECK(apart.uuids == Uuids{"GPU-n00", "GPU-n00"});
  CHECK(apart.unfit_for_timing.empty());
}

TEST_CASE("a host with more ranks than GPUs is refused, or its ranks take the GPU that the fewest ranks have") {
  const GuardGpus n0 = guard("n0", {0, 1}), n1 = guard("n1", {0});
  CHECK(refused({n0, n1, n0, n1}) ==
        "no GPU is left for rank 3 on n1: ranks 1, 3 on this machine may use 1 GPU, and each rank needs its own; start "
        "fewer ranks on each host, on more hosts, or let ranks share GPUs (--share-gpus)");
  const GpuAssignment shared = assign_gpus(std::vector{n0, n0, n0, n1, n0, n0, n1}, {.choice = {}, .shared = true});
  CHECK(shared.uuids == Uuids{"GPU-n00", "GPU-n01", "GPU-n00", "GPU-n10", "GPU-n01", "GPU-n00", "GPU-n10"});
  CHECK(shared.unfit_for_timing == "7 ranks share 3 GPUs");
  CHECK(assign_gpus(std::vector{n0, n1}, {.choice = {}, .shared = true}).unfit_for_timing.empty());
  // A rank that sees other GPUs does not take a GPU that is in use while another one is free.
  CHECK(assigned({guard("n0", {0}), guard("n0", {0, 1})}, {.choice = {}, .shared = true}) ==
        Uuids{"GPU-n00", "GPU-n01"});
}

TEST_CASE("a rank that sees too few of its machine's GPUs is not advised to start fewer ranks") {
  const GuardGpus all = guard("n0", {0, 1, 2}), one = guard("n0", {0}), elsewhere = guard("n1", {0, 1});
  CHECK(
      refused({all, elsewhere, one}) ==
      "no GPU is left for rank 2 on n0: it may use 1 GPU, which earlier ranks have, and ranks 0, 2 on this machine "
      "may use 3 GPUs together; let each rank see all GPUs of n0, for example without --gpus-per-task and --gpu-bind, "
      "or let ranks share GPUs (--share-gpus)");
  CHECK_THAT(
      refused({guard("n0", {0, 1}), guard("n0", {0, 1}), guard("n0", {0, 1}), guard("n0", {2, 3})}),
      ContainsSubstring("rank 2 on n0: it may use 2 GPUs, which") && ContainsSubstring("may use 4 GPUs together"));
  // Later ranks count, too.
  CHECK_THAT(refused({one, one, guard("n0", {1})}), ContainsSubstring("ranks 0…2 on this machine may use 2 GPUs, and"));
  CHECK_THAT(refused({one, one, guard("n0", {1, 2})}), ContainsSubstring("let each rank see all GPUs of n0"));
  // GPUs that --gpus leaves out do not count.
  CHECK_THAT(refused({all, one, all}, {.choice = {.count = 1, .names = {}}}), ContainsSubstring("start fewer ranks"));
}

TEST_CASE("the user's choice of GPUs is for each host") {
  const GuardGpus n0 = guard("n0", {0, 1, 2}), n1 = guard("n1", {0, 1, 2});
  const GpuTerms named{.choice = {.count = {}, .names = {"2", "1"}}};
  CHECK(assigned({n0, n0, n1}, named) == Uuids{"GPU-n02", "GPU-n01", "GPU-n12"});
  CHECK_THAT(refused({n0, n0, n0}, named), ContainsSubstring("no GPU is left for rank 2 on n0: ranks 0…2 on this "
                                                             "machine may use 2 GPUs"));
  const GpuTerms first{.choice = {.count = 1, .names = {}}};
  CHECK(assigned({n0, n1}, first) == Uuids{"GPU-n00", "GPU-n10"});
  CHECK_THAT(refused({n0, n1, n1}, first), ContainsSubstring("ranks 1, 2 on this machine may use 1 GPU"));
  CHECK(refused({n0, guard("n1", {0})}, named) == "on n1: --gpus 2: no such GPU; choose from 0 (GPU-n10)");
}

TEST_CASE("ranks without a GPU, and ranks on hosts that do not fit together, are refused") {
  const GuardGpus n0 = guard("n0", {0});
  GuardGpus other = guard("n1", {});
  other.listing.why_none = "the driver shows none";
  CHECK(
      refused({n0, other}) ==
      "--device cuda: no GPUs for rank 1 on n1: the driver shows none; look at nvidia-smi there, and at the GPUs that "
      "the command of --launcher shows to the rank (CUDA_VISIBLE_DEVICES)");
  CHECK(refused({n0, guard("n0", {1}), guard("n1", {0}, 22703)}) ==
        "rank 0 on n0 has NCCL 2.28.9, and rank 2 on n1 has NCCL 2.27.3: all hosts have to load the same version, for "
        "example by LD_LIBRARY_PATH");
  other = guard("n1", {0});
  other.listing.backend = "other CUDA";
  CHECK(refused({n0, other}) ==
        "rank 0 on n0 has the backend some CUDA, and rank 1 on n1 has the backend other CUDA: all hosts need the same "
        "file of --backend");
  other = guard("n1", {0});
  other.listing.why_no_records = "no CUPTI";
  CHECK(assigned({n0, other}).size() == 2);
  CHECK(refused({n0, other}, {.choice = {}, .needs_records = true}) ==
        "--times cupti: no records for rank 1 on n1: no CUPTI; use --times events");
}

TEST_CASE("a guard's list has the facts by which ranks get their GPUs, and fits in a message") {
  protocol::GpuListing all = supply(3).listing;
  all.gpus[0].peers.emplace_back().uuid = all.gpus[1].uuid;
  const protocol::GpuListing kept = brief(all);
  REQUIRE(kept.gpus.size() == 3);
  CHECK(kept.gpus[2].uuid == all.gpus[2].uuid);
  CHECK(kept.gpus[2].index == 2);
  CHECK((kept.nccl == all.nccl && kept.backend == all.backend));
  // A host with 16 GPUs of seven slices each.
  all.gpus.clear();
  for (int index = 0; index < 112; ++index) {
    protocol::GpuInfo& gpu = all.gpus.emplace_back();
    gpu.index = index;
    gpu.uuid = fmt::format("MIG-00000000-0000-0000-0000-{:012}", index);
    gpu.name = "NVIDIA H200 with a long name";
    gpu.pci_path = std::string(80, '/');
  }
  CHECK(nlohmann::ordered_json(brief(all)).dump().size() + 1000 < control::link::longest_note);
}

TEST_CASE("GPUs that are chosen know of each other, and of none that ranks will not have") {
  std::vector<protocol::GpuInfo> all = supply(3).listing.gpus;
  for (protocol::GpuInfo& gpu : all) {
    for (const protocol::GpuInfo& other : all) {
      if (&gpu != &other) gpu.peers.emplace_back().uuid = other.uuid;
    }
  }
  CHECK(choose_gpus(all, {}) == all);
  const auto two = choose_gpus(all, {.count = {}, .names = {"2", "0"}});
  REQUIRE(two[0].peers.size() == 1);
  CHECK(two[0].peers[0].uuid == all[0].uuid);
  CHECK(two[1].peers[0].uuid == all[2].uuid);
}

TEST_CASE("a rank that shares no GPU gets its own GPU in the environment, and no sharing settings") {
  const auto ranks = gpu_environment({"GPU-a0", "GPU-b0"}, 22809, "7", {});
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[1] == Environment{{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
                                {"CUDA_MODULE_LOADING", "EAGER"},
                                {"CUDA_VISIBLE_DEVICES", "GPU-b0"}});
}

TEST_CASE(
    "ranks that share a GPU are machines of their own to an NCCL that does not share, and are allowed to by one that "
    "does") {
  const auto old = gpu_environment({"GPU-a0", "GPU-a0"}, 22809, "7", {});
  CHECK(old[0].at("NCCL_HOSTID") != old[1].at("NCCL_HOSTID"));
  CHECK_FALSE(old[0].contains("NCCL_MULTI_RANK_GPU_ENABLE"));
  CHECK(old[0].at("NCCL_SOCKET_IFNAME") == "lo");
  CHECK(old[0].at("NCCL_MAX_CTAS") == "2");
  CHECK(gpu_environment({"GPU-a0", "GPU-a0"}, 22809, "8", {})[0].at("NCCL_HOSTID") != old[0].at("NCCL_HOSTID"));
  const auto fresh = gpu_environment({"GPU-a0", "GPU-a0"}, 23003, "7", {});
  CHECK(fresh[1].at("NCCL_MULTI_RANK_GPU_ENABLE") == "1");
  CHECK_FALSE(fresh[1].contains("NCCL_HOSTID"));
}

TEST_CASE("ranks on several hosts use the network, also where some of them share a GPU") {
  const auto ranks = gpu_environment({"GPU-a0", "GPU-a0", "GPU-b0"}, 22809, "7", {}, false);
  CHECK_FALSE(ranks[0].contains("NCCL_SOCKET_IFNAME"));
  CHECK(ranks[0].at("NCCL_MAX_CTAS") == "2");
}

TEST_CASE("the user's environment stays, except the settings that assign GPUs to ranks") {
  const std::vector<std::string> users{"CUDA_MODULE_LOADING=LAZY", "NCCL_PROTO=LL", "CUDA_VISIBLE_DEVICES=0,1",
                                       "NCCL_HOSTID=mine"};
  const auto ranks = gpu_environment({"GPU-a0", "GPU-a0"}, 22809, "7", users);
  CHECK_FALSE(ranks[0].contains("CUDA_MODULE_LOADING"));
  CHECK_FALSE(ranks[0].contains("NCCL_PROTO"));
  CHECK(ranks[0].at("CUDA_DEVICE_MAX_CONNECTIONS") == "32");
  CHECK(ranks[0].at("CUDA_VISIBLE_DEVICES") == "GPU-a0");
  CHECK(ranks[0].contains("NCCL_HOSTID"));
}

TEST_CASE("worlds that there are too few GPUs for are skipped, and say so with both numbers") {
  const Plan all = plan(sizes({1, 2, 4}), on_gpus(2));
  REQUIRE(all.worlds.size() == 3);
  CHECK(all.worlds[1].skipped.empty());
  CHECK(all.worlds[2].skipped ==
        "a world of 4 ranks needs 4 GPUs, one for each, and may use 2 (--share-gpus puts several ranks on one)");
  CHECK(all.worlds[2].unfit_for_timing.empty());
  CHECK(all.supply->count() == 2);
}

TEST_CASE("a size that was asked for is refused rather than skipped, and so is a run without any case") {
  PlanOptions options = on_gpus(2);
  options.ranks = {1, 4};
  CHECK(refusal([&] { plan(sizes({1, 2, 4}), options); }) ==
        "--ranks 4: a world of 4 ranks needs 4 GPUs, one for each, and may use 2 (--share-gpus puts several ranks on "
        "one)");
  CHECK_THAT(refusal([] { plan(sizes({3, 4}), on_gpus(2)); }),
             ContainsSubstring("no selected case can run: a world of 3 ranks needs 3 GPUs"));
}

TEST_CASE("a launcher plans worlds of every size where guards find the GPUs") {
  PlanOptions options = on_gpus(1);
  options.supply->by_guards = GpuTerms{};
  options.launcher = "mpirun -n {ranks}";
  options.ranks = {1, 4};
  for (const int own : {0, 1}) {
    options.supply->listing = supply(own).listing;
    const Plan all = plan(sizes({1, 2, 4}), options);
    REQUIRE(all.worlds.size() == 2);
    CHECK(all.worlds[1].skipped.empty());
    CHECK(all.worlds[1].unfit_for_timing.empty());
  }
}

TEST_CASE("worlds whose ranks share GPUs are unfit for timing, and the others are not") {
  const Plan all = plan(sizes({1, 2, 4}), on_gpus(2, true));
  CHECK(all.worlds[1].unfit_for_timing.empty());
  CHECK(all.worlds[2].skipped.empty());
  CHECK(all.worlds[2].unfit_for_timing == "4 ranks share 2 GPUs");
}

TEST_CASE("the launcher reports a worker that does not list its GPUs in one line, with what it did instead") {
  CHECK_THAT(unknown_gpus("kill -SEGV $$"),
             ContainsSubstring("/some/backend.so") && ContainsSubstring("ended with signal 11 (SIGSEGV)"));
  CHECK_THAT(unknown_gpus("exec sleep 1000", std::chrono::milliseconds(50)),
             ContainsSubstring("did not answer within 0.05 s"));
  CHECK_THAT(unknown_gpus("echo 'oh no' >&2; echo more >&2; exit 2"),
             ContainsSubstring("exit code 2 (standard error: oh no)"));
  CHECK_THAT(unknown_gpus("true"), ContainsSubstring("gave an empty answer"));
  CHECK_THAT(unknown_gpus("echo hello"), ContainsSubstring("not JSON: 'hello'"));
  CHECK_THAT(unknown_gpus("echo '{\"protocol\":1}'"),
             ContainsSubstring("malformed") && ContainsSubstring("\"backend\" is missing"));
  CHECK_THAT(unknown_gpus("head -c 300000000 /dev/zero"), ContainsSubstring("ended with"));
}

TEST_CASE("a list of GPUs comes back as it was, and GPUs are numbered as their tools number them") {
  const TemporaryDirectory directory;
  write_text(directory / "listing", nlohmann::ordered_json(supply(3).listing).dump());
  SignalWatch signals;
  const auto asked = program(
      directory, "[ \"$*\" = \"--list-gpus /some/backend.so\" ] && [ $CUDA_DEVICE_ORDER = PCI_BUS_ID ] && cat " +
                     (directory / "listing").string());
  CHECK(ask_gpus(find_worker(asked), "/some/backend.so", signals) == supply(3).listing);
}

TEST_CASE("a reason for no GPUs is one line, whatever a library says") {
  const TemporaryDirectory directory;
  protocol::GpuListing none;
  none.why_none = "no \x1b[31mdriver\nand more";
  none.why_no_records = "no \x1b[31mCUPTI\nand more";
  write_text(directory / "listing", nlohmann::ordered_json(none).dump());
  SignalWatch signals;
  const auto asked = program(directory, "cat " + (directory / "listing").string());
  const protocol::GpuListing listing = ask_gpus(find_worker(asked), "/some/backend.so", signals);
  CHECK(listing.why_none == "no \\x1b[31mdriver");
  CHECK(listing.why_no_records == "no \\x1b[31mCUPTI");
}

TEST_CASE("a report's machine says what GPUs were reached by") {
  CHECK(gpu_facts(supply(1).listing) ==
        std::map<std::string, std::string>{
            {"backend", "some CUDA"}, {"cuda_driver", "13.0"}, {"cuda_runtime", "13.0"}, {"nccl", "2.28.9"}});
  CHECK(models_text(supply(3).listing.gpus) == "2 x model A, 1 x model B");
}
