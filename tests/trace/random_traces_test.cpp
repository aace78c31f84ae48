// Races and order of small random traces, against a search that knows nothing of vector clocks: every fact is a node,
// every rule an edge, and Warshall's algorithm closes the relation; races are looked for byte by byte. Replay:
// --rng-seed N as printed.
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "harness/protocol/trace_json.hpp"
#include "harness/trace/order.hpp"
#include "harness/trace/races.hpp"
#include "tests/rounds.hpp"
#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using shardproof::test::TraceBuilder;
using shardproof::testing::rounds;

namespace {

constexpr std::uint64_t buffer_bytes = 6;
constexpr std::uint64_t buffers = 2;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  template <class T>
  T below(T bound) {
    return static_cast<T>(engine_() % static_cast<std::uint64_t>(bound));
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<ByteRange> some_ranges(Dice& dice) {
  std::vector<ByteRange> ranges;
  for (int n = dice.below(3); n > 0; --n) {
    const std::uint64_t offset = dice.below(buffer_bytes);
    ranges.push_back({1 + dice.below(buffers), offset, dice.below(buffer_bytes - offset + 1)});
  }
  return ranges;
}

Trace random_trace(Dice& dice) {
  const auto streams = 1 + dice.below(std::uint32_t{4});
  TraceBuilder builder;
  std::uint64_t events = 0;
  for (int n = 4 + dice.below(26); n > 0; --n) {
    const auto stream = dice.below(streams);
    const std::uint64_t some_event = 1 + dice.below(events + 1);
    switch (dice.below(14)) {
      case 0:
      case 1:
      case 2:
      case 3: builder.work(stream, "w", some_ranges(dice), some_ranges(dice)); break;
      case 4: builder.gather(stream, "g", 0, 0, some_ranges(dice), some_ranges(dice)); break;
      case 5:
      case 6: builder.record(stream, dice.below(4) == 0 ? some_event : ++events); break;
      case 7:
      case 8:
      case 9: builder.wait(stream, some_event); break;
      case 10: builder.synchronize_stream(stream); break;
      case 11: builder.synchronize_event(some_event); break;
      case 12: builder.host("h", some_ranges(dice), some_ranges(dice)); break;
      default:
        if (dice.below(3) == 0) {
          builder.release(stream, 1 + dice.below(buffers));
        } else {
          builder.allocate(stream, 1 + dice.below(buffers), buffer_bytes);
        }
    }
  }
  return builder.trace();
}

// before[i][j]: a path leads from fact i to fact j.
class Reachability {
 public:
  explicit Reachability(const Trace& trace) : n_(trace.facts.size()), before_(n_ * n_) {
    std::map<std::uint64_t, std::size_t> recorded;
    for (std::size_t j = 0; j < n_; ++j) {
      const Fact& later = trace.facts[j];
      for (std::size_t i = 0; i < j; ++i) {
        const auto stream = stream_of(trace.facts[i]);
        if (stream && stream == stream_of(later)) edge(i, j);  // one stream
        if (is_host(trace.facts[i])) edge(i, j);  // issued, or done, by a host that had got that far
        const auto* synchronized = std::get_if<fact::StreamSynchronized>(&later);
        if (synchronized && stream == synchronized->stream) edge(i, j);
      }
      if (const auto* record = std::get_if<fact::EventRecorded>(&later)) recorded[record->event] = j;
      const auto* wait = std::get_if<fact::EventWaited>(&later);
      const auto* synchronized = std::get_if<fact::EventSynchronized>(&later);
      if (wait && recorded.contains(wait->event)) edge(recorded[wait->event], j);
      if (synchronized && recorded.contains(synchronized->event)) edge(recorded[synchronized->event], j);
    }
    for (std::size_t k = 0; k < n_; ++k) {
      for (std::size_t i = 0; i < n_; ++i) {
        for (std::size_t j = 0; j < n_; ++j) {
          if (before(i, k) && before(k, j)) edge(i, j);
        }
      }
    }
  }

  bool before(std::size_t i, std::size_t j) const { return before_[i * n_ + j]; }

 private:
  // A synchronization is something that the host does, not the stream.
  static bool is_host(const Fact& fact) {
    return std::holds_alternative<fact::StreamSynchronized>(fact) ||
           std::holds_alternative<fact::EventSynchronized>(fact) || std::holds_alternative<fact::HostAccess>(fact);
  }
  static std::optional<std::uint32_t> stream_of(const Fact& fact) {
    if (is_host(fact)) return std::nullopt;
    return std::visit(
        []<class F>(const F& f) -> std::optional<std::uint32_t> {
          if constexpr (requires { f.stream; }) return f.stream;
          return std::nullopt;
        },
        fact);
  }
  void edge(std::size_t i, std::size_t j) { before_[i * n_ + j] = true; }

  std::size_t n_;
  std::vector<bool> before_;
};

// How a fact touches one byte of one buffer.
struct Use {
  bool reads = false, writes = false;
  bool any() const { return reads || writes; }
};

Use use(const Fact& fact, std::uint64_t buffer, std::uint64_t byte) {
  const auto touches = [&](const std::vector<ByteRange>& ranges) {
    for (const ByteRange& range : ranges) {
      if (range.buffer == buffer && range.offset <= byte && byte < range.offset + range.length) return true;
    }
    return false;
  };
  return std::visit(
      [&]<class F>(const F& f) -> Use {
        if constexpr (std::is_same_v<F, fact::Allocated> || std::is_same_v<F, fact::Released>)
          return {false, f.buffer == buffer};
        else if constexpr (requires {
                             f.reads;
                             f.writes;
                           })
          return {touches(f.reads), touches(f.writes)};
        else return {};
      },
      fact);
}

// (earlier, later, after release)
using Found = std::set<std::tuple<std::size_t, std::size_t, bool>>;

Found races_byte_by_byte(const Trace& trace, const Reachability& order) {
  Found found;
  const auto is_release = [&](std::size_t i) { return std::holds_alternative<fact::Released>(trace.facts[i]); };
  for (std::uint64_t buffer = 1; buffer <= buffers; ++buffer) {
    for (std::uint64_t byte = 0; byte < buffer_bytes; ++byte) {
      std::vector<std::size_t> users;
      std::optional<std::size_t> last_release;
      for (std::size_t later = 0; later < trace.facts.size(); ++later) {
        const Use now = use(trace.facts[later], buffer, byte);
        if (!now.any()) continue;
        if (last_release) found.emplace(*last_release, later, true);
        for (const std::size_t earlier : users) {
          if (is_release(earlier) || order.before(earlier, later)) continue;
          const auto superseded = [&](bool as_write) {
            for (const std::size_t middle : users) {
              const Use then = use(trace.facts[middle], buffer, byte);
              if (middle > earlier && order.before(earlier, middle) && (then.writes || (!as_write && then.reads)))
                return true;
            }
            return false;
          };
          const Use then = use(trace.facts[earlier], buffer, byte);
          const bool races = (then.writes && !superseded(true)) || (now.writes && then.reads && !superseded(false));
          if (races) found.emplace(earlier, later, is_release(later));
        }
        users.push_back(later);
        if (is_release(later)) last_release = later;
      }
    }
  }
  return found;
}

}  // namespace

TEST_CASE("races and order agree with a naive search on random traces") {
  const std::uint32_t seed = Catch::getSeed();
  std::size_t racy = 0, quiet = 0;
  for (std::uint32_t round = 0; round < rounds(3000U); ++round) {
    Dice dice((std::uint64_t{seed} << 32) + round);
    const Trace trace = random_trace(dice);
    const Reachability order(trace);
    INFO("--rng-seed " << seed << ", round " << round << ": " << nlohmann::ordered_json(trace).dump());

    const trace::HappensBefore before(trace);
    bool same_order = true;
    for (std::size_t i = 0; i < trace.facts.size(); ++i) {
      for (std::size_t j = 0; j < trace.facts.size(); ++j) {
        const auto counts = [&](std::size_t k) {
          return std::holds_alternative<fact::Work>(trace.facts[k]) ||
                 std::holds_alternative<fact::Collective>(trace.facts[k]);
        };
        if (counts(i) && counts(j) && before.before(i, j) != order.before(i, j)) same_order = false;
      }
    }
    REQUIRE(same_order);

    Found found;
    for (const trace::Race& race : trace::find_races(trace, 10'000)) {
      REQUIRE(found.emplace(race.first.fact, race.second.fact, race.first.releases || race.second.releases)
                  .second);  // one per pair
    }
    REQUIRE(found == races_byte_by_byte(trace, order));
    ++(found.empty() ? quiet : racy);
  }
  // Both kinds must have been among them, or nothing was compared.
  CHECK(racy > rounds(std::size_t{300}));
  CHECK(quiet > rounds(std::size_t{30}));
}
