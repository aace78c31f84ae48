// The calls of PyTorch's fully_shard for a stack of any depth, as trace entries, and their times on the virtual clock.
// This is a second way to the numbers of overlap_times.hpp, by bookkeeping over streams and events.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "fixtures/oracles/overlap_times.hpp"

namespace shardproof::oracles {

/// Duration of the n-th entry (from 0) of a kind: `all_gather`, `reduce_scatter`, `compute_fwd`, `compute_bwd`,
/// `optim`.
using Durations = std::function<Nanoseconds(const std::string& kind, std::size_t nth, const std::string& label)>;

enum class Resources { shared, separate, none };  ///< none: collectives of different streams overlap

struct Simulated {
  std::map<std::string, Nanoseconds> marks;  ///< end of the compute stream when the mark was set
  Nanoseconds end = 0;  ///< latest end over all streams
};

inline Simulated simulate(const nlohmann::ordered_json& entries, const Durations& duration, Resources resources) {
  std::map<std::string, Nanoseconds> stream, resource;
  std::map<int, Nanoseconds> event;
  std::map<std::string, std::size_t> seen;
  Simulated result;
  for (const auto& entry : entries) {
    const std::string kind = entry.at(0).get<std::string>();
    const auto name = [&](std::size_t i) { return entry.at(i).get<std::string>(); };
    if (kind == "mark") result.marks[name(1)] = stream["default"];
    else if (kind == "wait_stream") stream[name(1)] = std::max(stream[name(1)], stream[name(2)]);
    else if (kind == "record") event[entry.at(2).get<int>()] = stream[name(1)];
    else if (kind == "wait_event") stream[name(1)] = std::max(stream[name(1)], event.at(entry.at(2).get<int>()));
    else if (kind == "all_gather" || kind == "reduce_scatter") {
      Nanoseconds& free = resource[resources == Resources::separate ? kind
                                   : resources == Resources::shared ? ""
                                                                    : name(1)];
      free = stream[name(1)] = std::max(stream[name(1)], free) + duration(kind, seen[kind]++, "");
    } else {
      const std::string label = kind == "optim" ? "" : name(2);
      stream[name(1)] += duration(kind, seen[kind]++, label);
    }
  }
  for (const auto& [role, end] : stream) result.end = std::max(result.end, end);
  return result;
}

/// The entries of one iteration, with the marks `forward`, `backward` and `end`. Collectives have the layer as their
/// label instead of operands.
inline nlohmann::ordered_json stack_program(const Stack& stack) {
  auto entries = nlohmann::ordered_json::array();
  const std::size_t count = stack.layers.size();
  const bool alone = stack.world == 1;
  int events = 0;
  const auto add = [&](auto... fields) { entries.push_back(nlohmann::ordered_json::array({fields...})); };
  const auto record = [&](const char* on) {
    add("record", on, events);
    return events++;
  };
  const auto gather_streams_wait = [&](int copy_out) {
    add("wait_event", "ag_copy_in", copy_out);
    add("wait_event", "ag", copy_out);
  };
  const auto all_gather = [&](std::size_t layer) {
    add("wait_stream", "ag", "ag_copy_in");
    if (!alone) add("all_gather", "ag", layer);
    return record("ag");
  };

  add("mark", "forward");
  int copy_out = -1;
  for (std::size_t i = 0; i < count; ++i) {
    const int gathered = all_gather(i);
    if (copy_out >= 0) gather_streams_wait(copy_out);
    add("wait_event", "default", gathered);
    copy_out = record("default");
    add("compute_fwd", "default", std::to_string(i));
  }
  gather_streams_wait(copy_out);

  add("mark", "backward");
  std::vector<int> gathered(count, -1);
  int reduced = -1;
  for (std::size_t k = count; k-- > 0;) {
    if (stack.layers[k].reshard_after_forward) {
      if (gathered[k] < 0) gathered[k] = all_gather(k);
      add("wait_event", "default", gathered[k]);
      gather_streams_wait(record("default"));
    }
    if (stack.backward_prefetch && k > 0 && stack.layers[k - 1].reshard_after_forward)
      gathered[k - 1] = all_gather(k - 1);
    add("compute_bwd", "default", std::to_string(k));
    if (reduced >= 0) add("wait_event", "default", reduced);
    add("wait_stream", "rs", "default");
    if (!alone) add("reduce_scatter", "rs", k);
    reduced = record("rs");
  }
  add("wait_event", "default", reduced);
  add("mark", "end");
  return entries;
}

/// The order in which stack_program gathers layers.
inline std::vector<std::size_t> gather_order(const Stack& stack) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < stack.layers.size(); ++i) order.push_back(i);
  for (std::size_t k = stack.layers.size(); k-- > 0;) {
    if (stack.layers[k].reshard_after_forward) order.push_back(k);
  }
  return order;
}

}  // namespace shardproof::oracles
