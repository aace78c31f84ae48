#include "suites/checks/times.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace shardproof::suites {

namespace {

using Span = std::pair<Nanoseconds, Nanoseconds>;

// The spans of computation, in order. Adjacent spans are merged.
std::vector<Span> computing(const Iteration& iteration) {
  std::vector<Span> spans;
  for (const Fact& fact : iteration.facts()) {
    if (const auto* const work = std::get_if<fact::Work>(&fact); work != nullptr && work->stream == Device::compute.id)
      spans.emplace_back(work->start, work->end);
  }
  std::ranges::sort(spans);
  std::vector<Span> merged;
  for (const Span& span : spans) {
    if (merged.empty() || span.first > merged.back().second) merged.push_back(span);
    else merged.back().second = std::max(merged.back().second, span.second);
  }
  return merged;
}

std::string_view words(Limit limit) {
  switch (limit) {
    case Limit::at_most: return "at most ";
    case Limit::less_than: return "less than ";
    case Limit::at_least: return "at least ";
    case Limit::exactly: break;
  }
  return "";
}

bool holds(Nanoseconds time, Limit limit, Nanoseconds expected) {
  switch (limit) {
    case Limit::at_most: return time <= expected;
    case Limit::less_than: return time < expected;
    case Limit::at_least: return time >= expected;
    case Limit::exactly: break;
  }
  return time == expected;
}

}  // namespace

std::string in_ms(Time time) { return fmt::format("{} ms", static_cast<double>(time.ns) / 1e6); }

void check_time(const Iteration& iteration, std::string_view what, Time time, Limit limit, Time expected) {
  if (holds(time.ns, limit, expected.ns)) {
    SUCCEED(what);
    return;
  }
  const std::string exposed = time.ns >= expected.ns ? exposed_collectives(iteration) : "";
  if (!exposed.empty()) UNSCOPED_INFO("no computation hides " << exposed);
  FAIL_CHECK(fmt::format("iteration {}: {} takes {}, but the expected time is {}{}", iteration.index(), what,
                         in_ms(time), words(limit), in_ms(expected)));
}

std::string exposed_collectives(const Iteration& iteration) {
  constexpr std::size_t shown = 3;
  const std::vector<Span> hides = computing(iteration);
  std::vector<std::pair<Nanoseconds, std::string>> exposed;
  for (const fact::Collective& call : iteration.collectives()) {
    Nanoseconds rest = call.end - call.start;
    for (const auto& [start, end] : hides)
      rest -= std::max<Nanoseconds>(0, std::min(end, call.end) - std::max(start, call.start));
    if (rest > 0)
      exposed.emplace_back(rest, fmt::format("{} \"{}\" ({})", to_string(call.kind), call.tag, in_ms(rest)));
  }
  std::ranges::stable_sort(exposed, std::ranges::greater(), [](const auto& one) { return one.first; });
  std::vector<std::string> texts;
  for (const auto& [time, text] : exposed) {
    if (texts.size() < shown) texts.push_back(text);
  }
  return fmt::format("{}{}", fmt::join(texts, ", "),
                     exposed.size() > shown ? fmt::format(" and {} more", exposed.size() - shown) : "");
}

}  // namespace shardproof::suites
