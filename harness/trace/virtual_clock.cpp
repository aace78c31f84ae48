#include "harness/trace/virtual_clock.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace shardproof::trace {

namespace {

[[noreturn]] void overflow() {
  throw std::overflow_error("the costs add up to more than 292 years, the limit of virtual time");
}

}  // namespace

Nanoseconds later(Nanoseconds start, Nanoseconds cost) {
  Nanoseconds end = 0;
  if (__builtin_add_overflow(start, cost, &end)) overflow();
  return end;
}

Nanoseconds multiple(Nanoseconds cost, std::size_t count) {
  Nanoseconds all = 0;
  if (__builtin_mul_overflow(cost, count, &all)) overflow();
  return all;
}

std::uint32_t VirtualClock::create_stream() {
  end_of_.push_back(0);
  return static_cast<std::uint32_t>(end_of_.size() - 1);
}

VirtualClock::Times VirtualClock::work(std::uint32_t stream, Nanoseconds cost) {
  const Nanoseconds start = std::max(end_of_[stream], host_);
  end_of_[stream] = later(start, cost);
  return {start, end_of_[stream]};
}

Nanoseconds VirtualClock::ready(std::uint32_t stream, Nanoseconds resource_free) const {
  return std::max({end_of_[stream], host_, resource_free});
}

VirtualClock::Times VirtualClock::collective(std::uint32_t stream, Nanoseconds start, Nanoseconds cost) {
  end_of_[stream] = later(start, cost);
  return {start, end_of_[stream]};
}

std::size_t VirtualClock::record(std::uint32_t stream) {
  event_times_.push_back(std::max(end_of_[stream], host_));
  return event_times_.size() - 1;
}

void VirtualClock::wait(std::uint32_t stream, std::size_t event) {
  end_of_[stream] = std::max(end_of_[stream], event_times_[event]);
}

void VirtualClock::synchronize_stream(std::uint32_t stream) { host_ = std::max(host_, end_of_[stream]); }

void VirtualClock::synchronize_event(std::size_t event) { host_ = std::max(host_, event_times_[event]); }

namespace {

class Retiming {
 public:
  explicit Retiming(const Pace& pace) : pace_(pace) { streams_.emplace(0, 0); }

  void take(std::vector<Fact>& facts) {
    for (std::size_t index = 0; index < facts.size(); ++index) {
      if (const std::size_t calls = collectives_of_call(facts, index); calls > 1) {
        take_call(facts, index, calls);
        index += calls - 1;
      } else {
        std::visit([&](auto& which) { take(index, which); }, facts[index]);
      }
    }
  }

 private:
  // The number of collectives of one call, from `first` on; 0: this fact is not a collective.
  static std::size_t collectives_of_call(const std::vector<Fact>& facts, std::size_t first) {
    const auto* const call = std::get_if<fact::Collective>(&facts[first]);
    std::size_t end = first;
    const auto belongs = [&](const Fact& fact) {
      const auto* const other = std::get_if<fact::Collective>(&fact);
      return call != nullptr && other != nullptr && fact::are_of_one_call(*call, *other);
    };
    while (end < facts.size() && belongs(facts[end])) ++end;
    return end - first;
  }

  // Collectives of one call start and end together, so the call takes as long as the longest one.
  void take_call(std::vector<Fact>& facts, std::size_t first, std::size_t calls) {
    Nanoseconds duration = 0;
    for (std::size_t i = first; i < first + calls; ++i) duration = std::max(duration, pace_.duration(i));
    auto& leader = std::get<fact::Collective>(facts[first]);
    take(first, leader, duration);
    for (std::size_t i = first + 1; i < first + calls; ++i)
      set(std::get<fact::Collective>(facts[i]), {leader.start, leader.end});
  }

  void take(std::size_t, fact::StreamCreated& created) { stream(created.stream); }
  void take(std::size_t index, fact::Work& work) { set(work, clock_.work(stream(work.stream), pace_.duration(index))); }
  void take(std::size_t index, fact::Collective& collective) { take(index, collective, pace_.duration(index)); }
  void take(std::size_t index, fact::Collective& collective, Nanoseconds duration) {
    Nanoseconds& resource_free = free_[pace_.resource(index)];
    const std::uint32_t on = stream(collective.stream);
    const Nanoseconds start = pace_.all_ready(index, clock_.ready(on, resource_free));
    set(collective, clock_.collective(on, start, duration));
    resource_free = collective.end;
  }
  void take(std::size_t, fact::EventRecorded& recorded) {
    events_[recorded.event] = clock_.record(stream(recorded.stream));
  }
  void take(std::size_t, fact::EventWaited& waited) {
    if (const auto found = events_.find(waited.event); found != events_.end())
      clock_.wait(stream(waited.stream), found->second);
  }
  void take(std::size_t, fact::StreamSynchronized& synchronized) {
    clock_.synchronize_stream(stream(synchronized.stream));
  }
  void take(std::size_t, fact::EventSynchronized& synchronized) {
    if (const auto found = events_.find(synchronized.event); found != events_.end())
      clock_.synchronize_event(found->second);
  }
  void take(std::size_t, fact::Mark& mark) { mark.time = clock_.end_of(0); }
  void take(std::size_t, fact::Allocated&) {}
  void take(std::size_t, fact::Released&) {}
  void take(std::size_t, fact::HostAccess&) {}

  std::uint32_t stream(std::uint32_t id) {
    const auto [found, is_new] = streams_.try_emplace(id, 0);
    if (is_new) found->second = clock_.create_stream();
    return found->second;
  }
  static void set(auto& fact, VirtualClock::Times times) {
    fact.start = times.start;
    fact.end = times.end;
  }

  const Pace& pace_;
  VirtualClock clock_;
  std::unordered_map<std::uint32_t, std::uint32_t> streams_;
  std::unordered_map<std::uint64_t, std::size_t> events_;
  std::unordered_map<std::uint64_t, Nanoseconds> free_;
};

}  // namespace

Trace retimed(Trace trace, const Pace& pace) {
  Retiming(pace).take(trace.facts);
  return trace;
}

}  // namespace shardproof::trace
