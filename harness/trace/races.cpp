#include "harness/trace/races.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/protocol/failure_text.hpp"
#include "harness/trace/byte_history.hpp"
#include "harness/trace/vector_clocks.hpp"
#include "harness/trace/words.hpp"

namespace shardproof::trace {

namespace {

// Two facts that conflict, before their text is made.
struct Meeting {
  Touch first, second;
  ByteRange bytes;
};

struct Buffer {
  const fact::Allocated* allocated = nullptr;
  ByteHistory history;
  std::optional<Touch> released;
};

class Search {
 public:
  explicit Search(const Trace& trace) : trace_(trace), clocks_(trace) {}

  std::vector<Race> run(std::size_t limit) {
    std::vector<Race> races;
    for (std::size_t index = 0; index < trace_.facts.size() && races.size() < limit; ++index) {
      const Fact& fact = trace_.facts[index];
      const VectorClocks::Moment moment = clocks_.take(fact);
      if (moment.position == 0) continue;
      meetings_.clear();
      visit(fact, {.fact = index, .moment = moment, .write = false});
      std::ranges::stable_sort(meetings_, {}, [](const Meeting& meeting) { return meeting.first.fact; });
      for (const Meeting& meeting : meetings_) {
        if (races.size() < limit) races.push_back(in_words(meeting));
      }
    }
    return races;
  }

 private:
  void visit(const Fact& fact, Touch touch) {
    if (const auto* allocated = std::get_if<fact::Allocated>(&fact)) {
      Buffer& buffer = buffers_[allocated->buffer];
      buffer.allocated = allocated;
      touch.write = true;
      access({allocated->buffer, 0, allocated->bytes}, touch);
      if (!allocated->adopted) return;  // the memory is not from a cache of the subject
      for (const std::uint64_t cached : std::exchange(cached_[allocated->stream], {})) take_over(cached, touch);
    } else if (const auto* released = std::get_if<fact::Released>(&fact)) {
      touch.write = true;
      release(*released, touch);
    } else {
      std::visit(
          [&]<class F>(const F& f) {
            if constexpr (requires {
                            f.reads;
                            f.writes;
                          }) {
              for (const ByteRange& range : f.reads) access(range, touch);
              touch.write = true;
              for (const ByteRange& range : f.writes) access(range, touch);
            }
          },
          fact);
    }
  }

  void access(const ByteRange& range, const Touch& touch) {
    if (range.length == 0) return;
    Buffer& buffer = buffers_[range.buffer];
    if (buffer.released) met(*buffer.released, touch, range);
    buffer.history.touch(range.offset, range.length, touch, clocks_,
                         [&](const Touch& earlier, std::uint64_t offset, std::uint64_t length) {
                           met(earlier, touch, {range.buffer, offset, length});
                         });
  }

  // No access may come after a release.
  void release(const fact::Released& released, const Touch& touch) {
    const std::uint64_t id = released.buffer;
    Buffer& buffer = buffers_[id];
    if (buffer.released) met(*buffer.released, touch, {id, 0, buffer.allocated ? buffer.allocated->bytes : 0});
    buffer.released = touch;
    if (released.to_cache) {
      cached_[released.stream].push_back(id);
    } else {
      take_over(id, touch);
    }
  }

  // The memory has another owner from here on: this counts as a write of all of it.
  void take_over(std::uint64_t id, const Touch& touch) {
    buffers_[id].history.touch_all(touch, clocks_,
                                   [&](const Touch& earlier, std::uint64_t offset, std::uint64_t length) {
                                     met(earlier, touch, {id, offset, length});
                                   });
  }

  void met(const Touch& first, const Touch& second, const ByteRange& bytes) {
    for (Meeting& known : meetings_) {
      if (known.first.fact != first.fact) continue;
      // The same two facts again, at later bytes: adjacent bytes extend the range, other bytes are left out.
      if (known.bytes.buffer == bytes.buffer && known.bytes.offset + known.bytes.length == bytes.offset)
        known.bytes.length += bytes.length;
      return;
    }
    meetings_.push_back({first, second, bytes});
  }

  Race in_words(const Meeting& meeting) {
    if (!words_) words_.emplace(trace_);
    const auto side = [&](const Touch& touch) {
      const auto* allocated = std::get_if<fact::Allocated>(&trace_.facts[touch.fact]);
      return Access{.fact = touch.fact,
                    .what = words_->access(touch.fact),
                    .stream = words_->stream_of(touch.fact),
                    .write = touch.write,
                    .releases = std::holds_alternative<fact::Released>(trace_.facts[touch.fact]),
                    .takes = allocated != nullptr && allocated->buffer != meeting.bytes.buffer};
    };
    const fact::Allocated* allocated = buffers_[meeting.bytes.buffer].allocated;
    return {.first = side(meeting.first),
            .second = side(meeting.second),
            .bytes = meeting.bytes,
            .buffer = allocated ? fmt::format("{} {}", to_string(allocated->memory), allocated->label) : ""};
  }

  const Trace& trace_;
  VectorClocks clocks_;
  std::unordered_map<std::uint64_t, Buffer> buffers_;
  // by stream: released buffers that no allocation has taken yet
  std::unordered_map<std::uint32_t, std::vector<std::uint64_t>> cached_;
  std::vector<Meeting> meetings_;  // of the current fact
  std::optional<Words> words_;
};

std::string place(const Race& race) {
  const std::string bytes = fmt::format("bytes {}..{} of buffer {}", race.bytes.offset,
                                        race.bytes.offset + race.bytes.length, race.bytes.buffer);
  return race.buffer.empty() ? bytes : fmt::format("{} \"{}\"", bytes, race.buffer);
}

struct Sentence {
  std::string first, second, missing;
};

Sentence sentence(const Race& race) {
  const auto does = [](const Access& access) { return access.write ? "writes" : "reads"; };
  if (race.first.releases && race.second.releases) return {"gives back", "gives them back again", "one release only"};
  if (race.first.releases)
    return {"gives back", fmt::format("{} them afterwards", does(race.second)), "a release after the last use"};
  std::string missing = race.second.stream.empty()
                            ? fmt::format("the host waits for stream {} in between", race.first.stream)
                            : fmt::format("stream {} waits for an event recorded on stream {} after the first",
                                          race.second.stream, race.first.stream);
  if (race.second.takes)
    return {does(race.first), "may be given them, which were released, without waiting for it", std::move(missing)};
  if (race.second.releases) return {does(race.first), "gives them back without waiting for it", std::move(missing)};
  return {does(race.first), fmt::format("{} them; nothing orders the two", does(race.second)), std::move(missing)};
}

}  // namespace

std::vector<Race> find_races(const Trace& trace, std::size_t limit) { return Search(trace).run(limit); }

std::string describe(const Race& race) {
  const Sentence words = sentence(race);
  return fmt::format("{} {} {}\n  then    {} {}\n  {}{}", race.first.what, words.first, place(race), race.second.what,
                     words.second, protocol::missing_wait, words.missing);
}

std::string missing(const Race& race) { return sentence(race).missing; }

std::vector<std::string> describe(const std::vector<Race>& races) {
  constexpr std::size_t shown = 3;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(shown, races.size()); ++i) texts.push_back(describe(races[i]));
  if (races.size() > shown) texts.push_back(fmt::format("{} more races", races.size() - shown));
  return texts;
}

}  // namespace shardproof::trace
