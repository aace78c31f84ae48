// Rank streams, endings and worlds for tests. They are right by default, and a test then spoils them.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "harness/protocol/events.hpp"
#include "tests/reports/world_record.hpp"

namespace shardproof::reports::testing {

inline constexpr char nonce[] = "nonce-1";

inline protocol::CaseInfo case_info(const std::string& name, int world_size, std::vector<std::string> clauses = {}) {
  protocol::CaseInfo info;
  info.params = {{"W", std::to_string(world_size)}};
  info.id = protocol::case_id(name, info.params);
  info.suite = name.substr(0, name.find('/'));
  info.world_size = world_size;
  info.clauses = std::move(clauses);
  info.file = "suites/" + info.suite + "/cases.cpp";
  info.line = 7;
  return info;
}

inline protocol::event::RankStarted started(int rank, int world_size) {
  return {rank, world_size, 1000 + rank, "node", nonce, "0.1.0", "build-a", protocol::Listing::current_protocol};
}

inline protocol::event::AssertionFailed check_failed(const std::string& expression, const std::string& expansion,
                                                     std::int64_t at_ns) {
  return {"suites/a/cases.cpp", 42, "CHECK", expression, expansion, {}, {}, at_ns};
}

/// The stream of one rank, line by line.
struct Lines {
  std::vector<std::string> lines;

  Lines& add(const protocol::RankEvent& event) {
    lines.push_back(protocol::to_line(event));
    return *this;
  }
  std::string text() const {
    std::string all;
    for (const auto& line : lines) all += line + "\n";
    return all;
  }
};

inline RankStream parse(const std::string& text) {
  std::istringstream in(text);
  return read_rank_stream(in);
}

/// A world whose ranks all pass all cases in order. A test changes it before the merge.
struct WorldOnPaper {
  protocol::WorldPlan plan;
  std::vector<protocol::CaseInfo> cases;
  std::vector<Lines> streams;
  std::vector<protocol::Ending> endings;

  WorldOnPaper(int size, const std::vector<std::string>& names) {
    plan.size = size;
    plan.nonce = nonce;
    for (const auto& name : names) {
      cases.push_back(case_info(name, size));
      plan.cases.push_back(cases.back().id);
    }
    streams.resize(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      begin(rank);
      for (std::size_t i = 0; i < cases.size(); ++i) pass(rank, i);
      finish(rank);
      endings.push_back({rank, protocol::Ending::How::exited, 0, -1, ""});
    }
  }

  Lines& of(int rank) { return streams.at(static_cast<std::size_t>(rank)); }
  protocol::Ending& ending(int rank) { return endings.at(static_cast<std::size_t>(rank)); }

  void clear(int rank) { of(rank).lines.clear(); }
  void begin(int rank) {
    clear(rank);
    of(rank).add(started(rank, plan.size));
  }
  void start(int rank, std::size_t position) {
    of(rank).add(
        protocol::event::CaseStarted{cases.at(position).id, position, static_cast<std::int64_t>(1000 * position)});
  }
  void end(int rank, std::size_t position, protocol::Outcome outcome, std::string reason = {}, int culprit = -1,
           std::uint64_t assertions = 3) {
    of(rank).add(protocol::event::CaseEnded{cases.at(position).id, position, outcome, assertions, std::move(reason),
                                            culprit, 12'000'000});
  }
  void pass(int rank, std::size_t position) {
    start(rank, position);
    of(rank).add(protocol::event::Measured{"forward_ns", 85e6, "ns"});
    end(rank, position, protocol::Outcome::passed);
  }
  void finish(int rank) { of(rank).add(protocol::event::RankEnded{rank}); }

  WorldRecord record() const {
    WorldRecord record{plan, cases, {}, endings};
    for (const auto& stream : streams) record.streams.push_back(parse(stream.text()));
    return record;
  }
  Report merged() const {
    const WorldRecord one = record();
    return merge(RunHead{}, std::span(&one, 1));
  }
};

}  // namespace shardproof::reports::testing
