#include "reports/export/chrome_trace.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

namespace shardproof::reports {

namespace {

using Json = nlohmann::ordered_json;

// The format uses microseconds. A double holds a nanosecond exactly enough for centuries.
double microseconds(Nanoseconds time) { return static_cast<double>(time) / 1000.0; }

std::uint64_t bytes_of(const std::vector<ByteRange>& ranges) {
  std::uint64_t sum = 0;
  for (const ByteRange& range : ranges) sum += range.length;
  return sum;
}

// The tracks of one rank, its slices, and the arrows between them.
class RankTracks {
 public:
  RankTracks(const Trace& trace, Json& events, std::uint64_t& flows)
      : rank_(trace.rank), events_(events), flows_(flows) {
    metadata("process_name", 0, {{"name", fmt::format("rank {}", rank_)}});
    metadata("process_sort_index", 0, {{"sort_index", rank_}});
    for (const auto& [stream, info] : streams(trace)) {
      metadata("thread_name", stream, {{"name", info.name.empty() ? std::string(to_string(info.role)) : info.name}});
      metadata("thread_sort_index", stream, {{"sort_index", stream}});
    }
    for (const Fact& fact : trace.facts) {
      std::visit([this](const auto& f) { take(f); }, fact);
    }
  }

 private:
  // The slice that determines when a stream or an event is done.
  struct Tail {
    std::uint32_t stream = 0;
    Nanoseconds end = 0;
  };

  void metadata(const char* name, std::uint32_t stream, Json args) {
    events_.push_back({{"name", name}, {"ph", "M"}, {"pid", rank_}, {"tid", stream}, {"args", std::move(args)}});
  }

  void take(const fact::Work& f) {
    draw(f.stream, fmt::format("{} {}", to_string(f.kind), f.label), "work", f.start, f.end,
         {{"kind", to_string(f.kind)}, {"bytes_read", bytes_of(f.reads)}, {"bytes_written", bytes_of(f.writes)}});
  }

  void take(const fact::Collective& f) {
    Json args{{"kind", to_string(f.kind)},
              {"bytes", std::max(f.in_count, f.out_count) * size_of(f.dtype)},
              {"dtype", to_string(f.dtype)},
              {"group", f.group},
              {"sequence", f.sequence}};
    if (f.op != ReduceOp::none) args["op"] = to_string(f.op);
    draw(f.stream, fmt::format("{} {}", to_string(f.kind), f.tag), "collective", f.start, f.end, std::move(args));
  }

  void take(const fact::EventRecorded& f) { recorded_[f.event] = tail_of(f.stream); }

  void take(const fact::EventWaited& f) {
    const auto event = recorded_.find(f.event);
    if (event != recorded_.end() && event->second.end > tail_of(f.stream).end) tail_of(f.stream) = event->second;
  }

  void take(const fact::Mark& f) {
    events_.push_back({{"name", f.text},
                       {"cat", "mark"},
                       {"ph", "i"},
                       {"s", "p"},
                       {"pid", rank_},
                       {"tid", 0},
                       {"ts", microseconds(f.time)}});
  }

  template <class F>
  void take(const F&) {}  // not drawn

  void draw(std::uint32_t stream, const std::string& name, const char* category, Nanoseconds start, Nanoseconds end,
            Json args) {
    Json event{{"name", name}, {"cat", category}, {"ph", "X"},
               {"pid", rank_}, {"tid", stream},   {"ts", microseconds(start)}};
    if (end > start) {
      event["dur"] = microseconds(end - start);
    } else {
      // A slice without length would be drawn inside the one that starts at the same time.
      event["ph"] = "i";
      event["s"] = "t";
    }
    event["args"] = std::move(args);
    events_.push_back(std::move(event));
    if (end == start) return;

    // Only a wait that held this slice back gets an arrow.
    Tail& tail = tail_of(stream);
    if (tail.stream != stream && tail.end == start) arrow(tail, stream, start);
    tail = {stream, end};
  }

  Tail& tail_of(std::uint32_t stream) { return tails_.try_emplace(stream, Tail{stream, 0}).first->second; }

  void arrow(const Tail& from, std::uint32_t to_stream, Nanoseconds start) {
    const auto event = [&](const char* phase, std::uint32_t stream, Nanoseconds time) {
      return Json{{"name", "wait"}, {"cat", "wait"},           {"ph", phase}, {"id", flows_}, {"pid", rank_},
                  {"tid", stream},  {"ts", microseconds(time)}};
    };
    // An arrow is tied to the slice around its time, so it leaves just before the end.
    events_.push_back(event("s", from.stream, from.end - 1));
    Json arrival = event("f", to_stream, start);
    arrival["bp"] = "e";
    events_.push_back(std::move(arrival));
    ++flows_;
  }

  int rank_;
  Json& events_;
  std::uint64_t& flows_;
  std::unordered_map<std::uint32_t, Tail> tails_;
  std::unordered_map<std::uint64_t, Tail> recorded_;
};

}  // namespace

Json chrome_trace(std::span<const Trace> ranks) {
  Json events = Json::array();
  std::uint64_t flows = 0;
  for (const Trace& trace : ranks) RankTracks(trace, events, flows);
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace shardproof::reports
