// The GPUs that a run may have, the GPUs that a world gets, and the variables of its ranks.
#include "launcher/process/gpus.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <nlohmann/json.hpp>

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
