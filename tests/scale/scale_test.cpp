// Counts of simulated worlds equal the counts of small worlds of real processes.
#include <stdlib.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "bench/scale/fit.hpp"
#include "bench/scale/formulas.hpp"
#include "bench/scale/linked_hosts.hpp"
#include "bench/scale/real_world.hpp"
#include "bench/scale/simulated_hosts.hpp"
#include "bench/scale/simulated_join.hpp"
#include "harness/control/page_layout.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "launcher/process/signal_watch.hpp"

using namespace shardproof;
using namespace shardproof::bench;

namespace {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "shardproof-scale-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Scratch() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

RealWorld real_world(int ranks, const std::filesystem::path& directory) {
  launcher::SignalWatch signals;
  const launcher::Worker worker = launcher::ask_worker(SHARDPROOF_BENCH_WORKER, signals);
  std::vector<std::string> cases;
  for (const protocol::CaseInfo& info : worker.listing.cases) {
    if (info.suite == "bench" && info.id.starts_with("bench/scale[") && info.world_size == ranks)
      cases.push_back(info.id);
  }
  REQUIRE(cases.size() == 10);
  return run_real_world(worker, SHARDPROOF_COUNT_CALLS, ranks, cases, directory);
}

}  // namespace

TEST_CASE("real ranks make the calls of the file store that simulated ranks make") {
  const int ranks = GENERATE(2, 4, 8);
  const auto count = static_cast<std::uint64_t>(ranks);
  CAPTURE(ranks);
  const Scratch scratch;
  const RealWorld real = real_world(ranks, scratch.path / "run");
  const FileCalls simulated = simulate_join(ranks);
  for (std::size_t kind = 0; kind < file_call_kinds; ++kind) {
    CAPTURE(file_call_names[kind]);
    CHECK(real.store[static_cast<FileCall>(kind)] == simulated[static_cast<FileCall>(kind)]);
  }
  // Each rank reads the plan, and writes its stream.
  CHECK(real.run[FileCall::open] == count);
  CHECK(real.run[FileCall::create] == count);
  CHECK(real.run.metadata() == 2 * count);

  CHECK(real.agreements == agreements_of(10));
  CHECK(real.stream_lines == count * stream_lines_of(10));
  CHECK(real.run[FileCall::write] == real.stream_lines);
  CHECK(real.files == files_of_world(ranks));
  CHECK(real.descriptors == launcher_descriptors(ranks));
  CHECK(real.page_bytes == control::page::Layout(ranks).bytes);
  CHECK(real.region_bytes == fabric::shm_world_bytes(ranks));
}

TEST_CASE("real hosts send the bytes that simulated hosts send") {
  const auto [hosts, ranks] = GENERATE(std::pair(2, 1), std::pair(2, 4), std::pair(5, 3));
  CAPTURE(hosts, ranks);
  SimulatedHosts simulated(hosts, ranks);
  simulated.join();
  const Traffic traffic = simulated.agree();
  CHECK(bytes_of_real_agreement(hosts, ranks) == traffic.bytes_to_hub + traffic.bytes_from_hub);
}

TEST_CASE("simulated hosts send the messages that docs/scale.md counts") {
  const auto [hosts, each] = GENERATE(std::pair(2, 1), std::pair(4, 3));
  CAPTURE(hosts, each);
  const auto h = static_cast<std::uint64_t>(hosts), w = h * static_cast<std::uint64_t>(each);
  SimulatedHosts world(hosts, each), dying(hosts, each);
  world.join();
  dying.join();
  const Traffic agreement = world.agree(), one_case = world.run_case(), end = world.end(), doom = dying.doom();
  CHECK(agreement.to_hub == h);
  CHECK(agreement.from_hub == h + 1);
  CHECK(one_case.to_hub == 2 * h + w);
  CHECK(one_case.from_hub == 2 * h + 2 + w);
  CHECK(end.to_hub == h + 3 * w);
  CHECK(end.from_hub == 2 * h + 2 + 3 * w);
  CHECK(doom.to_hub == 1 + w);
  CHECK(doom.from_hub == h + 1 + w);
}

TEST_CASE("a fit of small simulated worlds gives the messages and bytes of a larger one") {
  const std::pair<int, int> sizes[] = {{2, 1}, {4, 2}, {3, 8}, {8, 4}, {16, 8}, {32, 4}};
  using Count = std::function<std::uint64_t(const Traffic&)>;
  const Count counts[] = {[](const Traffic& traffic) { return traffic.to_hub; },
                          [](const Traffic& traffic) { return traffic.from_hub; },
                          [](const Traffic& traffic) { return traffic.bytes_to_hub; },
                          [](const Traffic& traffic) { return traffic.bytes_from_hub; }};
  std::vector<std::vector<Traffic>> steps;  // of each size
  for (const auto& [hosts, ranks] : sizes) {
    SimulatedHosts world(hosts, ranks), dying(hosts, ranks);
    dying.join();
    steps.push_back({world.join(), world.agree(), world.run_case(), world.find_deadlock(), world.end(), dying.doom()});
    // A deadlock's bytes depend on which ranks wait in a call, and on the names of ranks in its text.
    steps.back()[3].bytes_to_hub = steps.back()[3].bytes_from_hub = 0;
  }
  for (std::size_t step = 0; step < steps.front().size(); ++step) {
    for (std::size_t kind = 0; kind < std::size(counts); ++kind) {
      CAPTURE(step, kind);
      std::array<Fit::Sample, Fit::terms> samples;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const auto& [hosts, ranks] = sizes[i];
        samples[i] = {.hosts = hosts, .ranks = hosts * ranks, .count = counts[kind](steps[i][step])};
      }
      CHECK(Fit(samples).at(32, 128) == counts[kind](steps.back()[step]));
    }
  }
}
