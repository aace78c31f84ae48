#include "harness/trace/vector_clocks.hpp"

#include <algorithm>

namespace shardproof::trace {

namespace {

void join(std::span<std::uint32_t> into, std::span<const std::uint32_t> from) {
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

template <class F>
constexpr bool on_stream = requires(const F& fact) { fact.stream; };

}  // namespace

VectorClocks::VectorClocks(const Trace& trace) {
  for (const Fact& fact : trace.facts) {
    std::visit(
        [this]<class F>(const F& f) {
          if constexpr (on_stream<F>) {
            if (agent_of_.try_emplace(f.stream, static_cast<std::uint32_t>(agents_)).second) ++agents_;
          }
        },
        fact);
  }
  clocks_.resize(agents_ * agents_);
}

std::span<std::uint32_t> VectorClocks::event(std::uint64_t id, bool create) {
  if (create && event_rows_.try_emplace(id, event_rows_.size()).second)
    event_clocks_.resize(event_clocks_.size() + agents_);
  const auto found = event_rows_.find(id);
  if (found == event_rows_.end()) return {};  // never recorded: orders nothing
  return {event_clocks_.data() + found->second * agents_, agents_};
}

VectorClocks::Moment VectorClocks::next(std::uint32_t agent) {
  join(row(agent), row(host));
  return {agent, ++row(agent)[agent]};
}

VectorClocks::Moment VectorClocks::take(const Fact& fact) {
  const auto moment = std::visit(
      [this]<class F>(const F& f) -> Moment {
        if constexpr (std::is_same_v<F, fact::EventRecorded>) {
          const auto clock = event(f.event, true);
          std::ranges::copy(row(agent_of(f.stream)), clock.begin());
          join(clock, row(host));
        } else if constexpr (std::is_same_v<F, fact::EventWaited>) {
          join(row(agent_of(f.stream)), event(f.event, false));
        } else if constexpr (std::is_same_v<F, fact::StreamSynchronized>) {
          join(row(host), row(agent_of(f.stream)));
        } else if constexpr (std::is_same_v<F, fact::EventSynchronized>) {
          join(row(host), event(f.event, false));
        } else if constexpr (std::is_same_v<F, fact::HostAccess>) {
          return next(host);
        } else if constexpr (std::is_same_v<F, fact::StreamCreated> || std::is_same_v<F, fact::Mark>) {
          // order nothing
        } else {
          return next(agent_of(f.stream));
        }
        return {};
      },
      fact);
  if (moment.position != 0) last_ = moment;
  return moment;
}

}  // namespace shardproof::trace
