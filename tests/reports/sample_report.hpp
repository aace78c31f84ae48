// A report with nearly all possible content, for golden texts, the schema and mutations.
#pragma once

#include <csignal>
#include <limits>

#include "tests/reports/streams.hpp"

namespace shardproof::reports::testing {

inline Report sample_report() {
  RunHead head;
  head.run_id = "2030-01-02T03-04-05-7";
  head.started = "2030-01-02T03:04:05Z";
  head.argv = {"shardproof", "run", "--worker", "./my tests"};
  head.seed = std::numeric_limits<std::uint64_t>::max();
  head.suite_version = "0.1.0";
  head.git_commit = "0123abc";
  head.subject = "fully_shard";
  head.subject_version = "1";
  head.unknown_kinds = {"fully_shrad"};
  head.unknown_in_waivers = {"waivers[0] mine/waived* (ada): this worker has no subject rigth, closest is right"};
  head.warnings = {"a \x1b slow start"};
  head.machine = {{"cpu", "some cpu"}, {"host", "node-1"}};
  protocol::GpuInfo gpu;
  gpu.uuid = "GPU-8a1f";
  gpu.name = "model";
  gpu.bus_id = "0000:17:00.0";
  gpu.numa_node = 0;
  gpu.pci_path = "pci0000:16/0000:16:01.0/0000:17:00.0";
  gpu.clock_now_khz = 1'200'000;
  gpu.memory_clock_now_khz = 2'600'000;
  gpu.slowed_by = {"power cap"};
  gpu.peers = {{.uuid = "GPU-77",
                .can_access = true,
                .performance_rank = 0,
                .native_atomics = true,
                .nvlink = false,
                .pci = "PHB"}};
  head.gpus = {gpu};
  head.environment = {{"OMP_NUM_THREADS", "1"}};
  head.repeat = 2;
  head.profile = "core";
  head.outside_profile = 3;
  head.demands = {.max_skips = 2, .max_waivers = std::nullopt, .require = {"OVL-1", "OVL-9"}};
  head.waivers = {
      {.pattern = "mine/waived*",
       .verdict = Verdict::failed,
       .when = {.fabric = "shm", .device = "sim", .subject = "fully_shard", .fault = std::nullopt, .world_size = 2},
       .reason = "the new scheduler is late",
       .link = "https://tracker.example/7",
       .owner = "ada",
       .expires = "2030-02-01",
       .shown_by = {{.scenario = "docs/late one.json", .ranks = 3, .other_subject = "reference"}}},
      {.pattern = "mine/passed",
       .verdict = Verdict::crashed,
       .when =
           {.fabric = std::nullopt, .device = std::nullopt, .subject = std::nullopt, .fault = "drop", .world_size = {}},
       .reason = "drop crashes it",
       .link = "https://tracker.example/8",
       .owner = "bob",
       .expires = "2030-02-01",
       .shown_by = {}}};

  WorldOnPaper first(2, {"mine/passed", "mine/flaky", "mine/failed", "mine/skipped", "mine/disagreed", "mine/waived"});
  first.cases[2].clauses = {"OVL-1", "OVL-5"};
  first.cases[2].tags = {"overlap"};
  for (int rank = 0; rank < 2; ++rank) {
    first.begin(rank);
    first.pass(rank, 0);
    first.pass(rank, 1);
    first.start(rank, 2);
    auto failure = check_failed("run.forward() <= first_gather_exposed(run.scenario())", "105000000 <= 85000000",
                                rank == 1 ? 500 : 900);
    failure.messages = {"costs := 25 ms\nforward", "gather := 10 ms"};
    failure.clauses = {"OVL-1", "OVL-5"};
    first.of(rank).add(failure);
    if (rank == 0) first.of(rank).add(check_failed("run.races().empty()", "false", 950));
    first.end(rank, 2, protocol::Outcome::failed);
    first.start(rank, 3);
    first.end(rank, 3, protocol::Outcome::skipped, "needs a timeline", 0, 0);
    first.start(rank, 4);
    first.of(rank).add(protocol::event::Measured{"exposed_ns", 10e6 + rank, "ns"});
    first.end(rank, 4, protocol::Outcome::passed);
    first.start(rank, 5);
    if (rank == 1) first.of(rank).add(check_failed("late == 0", "3 == 0", 700));
    first.end(rank, 5, rank == 1 ? protocol::Outcome::failed : protocol::Outcome::passed);
    first.finish(rank);
  }

  // The second time `flaky` fails, by an exception on rank 1; then rank 1 dies.
  WorldOnPaper second(2, {"mine/flaky", "mine/crashed", "mine/late"});
  for (int rank = 0; rank < 2; ++rank) {
    second.begin(rank);
    second.start(rank, 0);
    if (rank == 1)
      second.of(rank).add(
          protocol::event::AssertionFailed{"", 0, "", "", "std::runtime_error: \x1b[31mno\x1b[0m", {}, {}, 7});
    second.end(rank, 0, rank == 1 ? protocol::Outcome::error : protocol::Outcome::released,
               rank == 1 ? "an exception left the body" : "", rank == 1 ? -1 : 1);
    second.start(rank, 1);
  }
  second.end(0, 1, protocol::Outcome::released, "rank 1 died", 1);
  second.finish(0);
  second.ending(1) = {1, protocol::Ending::How::signalled, SIGKILL, 1, "SIGKILL"};

  const std::vector<WorldRecord> worlds{first.record(), second.record()};
  Report report = merge(std::move(head), worlds);
  report.worlds[0].placement = Placement({{"node-1", "5eed", {0, 1}}});
  report.worlds[0].host_details = {{.interfaces = {"ib0"}, .gpus = {"GPU-8a1f", "GPU-77"}}};
  report.worlds[1].environment = {{{"CUDA_VISIBLE_DEVICES", "GPU-8a1f"}}, {{"CUDA_VISIBLE_DEVICES", "GPU-8a1f"}}};
  report.worlds[1].times = protocol::cupti_times;
  report.worlds[1].unfit_for_timing = "2 ranks share 1 GPU";
  report.worlds[1].nccl = {"rank 1 called NCCL once"};
  return report;
}

}  // namespace shardproof::reports::testing
