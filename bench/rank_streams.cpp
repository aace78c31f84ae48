#include "bench/rank_streams.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/events.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::bench {

namespace {

std::string stream_text(int rank, const protocol::WorldPlan& plan) {
  std::string text;
  std::int64_t now = 1'000'000'000;
  const auto write = [&](const protocol::RankEvent& event) { text += protocol::to_line(event) + '\n'; };
  write(protocol::event::RankStarted{.rank = rank,
                                     .world_size = plan.size,
                                     .pid = rank + 1,
                                     .host = "bench",
                                     .nonce = plan.nonce,
                                     .suite_version = "1",
                                     .build = "bench",
                                     .protocol = protocol::Listing::current_protocol,
                                     .host_id = "0123456789abcdef",
                                     .gpu = {},
                                     .interfaces = {"eth0"},
                                     .clocks = protocol::ClockPair{now, 1'700'000'000'000'000'000}});
  for (std::uint64_t position = 0; position < plan.cases.size(); ++position) {
    const std::string& id = plan.cases[position];
    write(protocol::event::CaseStarted{.id = id, .position = position, .monotonic_ns = now += 1'000});
    write(
        protocol::event::CaseEnded{.id = id, .position = position, .assertions = 5, .reason = {}, .duration_ns = 900});
  }
  write(protocol::event::RankEnded{rank});
  return text;
}

protocol::WorldPlan plan_of(int ranks, std::vector<std::string> cases) {
  return {.size = ranks,
          .nonce = "n",
          .rendezvous = {},
          .directory = {},
          .subject = {},
          .fault = {},
          .cases = std::move(cases)};
}

}  // namespace

void write_run(const protocol::RunDirectory& run, int ranks, int cases) {
  const protocol::WorldDirectory world = run.world(0);
  std::filesystem::create_directories(world.ranks());
  protocol::WorldPlan plan = plan_of(ranks, {});
  plan.directory = world.root;
  for (int i = 0; i < cases; ++i) plan.cases.push_back(fmt::format("bench/case_{:04}[W={}]", i, ranks));
  std::vector<protocol::Ending> endings;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ofstream(world.rank_stream(rank)) << stream_text(rank, plan);
    endings.push_back({.rank = rank, .how = protocol::Ending::How::exited, .code = 0, .position = -1, .text = {}});
  }
  std::ofstream(world.plan()) << base::dump_document(plan);
  std::ofstream(world.endings()) << base::dump_document(endings);
}

std::uint64_t stream_bytes(int rank, int ranks, const std::vector<std::string>& cases) {
  return stream_text(rank, plan_of(ranks, cases)).size();
}

}  // namespace shardproof::bench
