#include "suites/checks/kind.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace shardproof::suites {

namespace {

struct Entry {
  std::string_view name;
  const Kind& (*checks)();
};

constexpr std::array kinds{Entry{"fully_shard", fully_shard_checks}, Entry{"flat_shard", flat_shard_checks},
                           Entry{"replicate", replicate_checks}};

void count(Communication& communication, const Kind& kind, const fact::Collective& call) {
  if (kind.is_agreement(call)) return;
  if (call.kind == CollectiveKind::all_gather) ++communication.all_gathers;
  if (call.kind == CollectiveKind::reduce_scatter) ++communication.reduce_scatters;
  if (call.kind == CollectiveKind::all_reduce) ++communication.all_reduces;
}

}  // namespace

Communication issued(const Kind& kind, const Iteration& iteration) {
  Communication communication;
  for (const fact::Collective& call : iteration.collectives()) count(communication, kind, call);
  return communication;
}

Communication issued(const Kind& kind, const Run& run) {
  Communication communication;
  for (const Fact& fact : run.trace().facts) {
    if (const auto* const call = std::get_if<fact::Collective>(&fact)) count(communication, kind, *call);
  }
  return communication;
}

const Kind& kind_of(const Plan& plan) {
  const auto kind = std::ranges::find(kinds, plan.engine.kind(), &Entry::name);
  if (kind == kinds.end())
    throw std::invalid_argument(
        fmt::format("checks: no checks exist for the engine kind \"{}\" of the plan", plan.engine.kind()));
  return kind->checks();
}

}  // namespace shardproof::suites
