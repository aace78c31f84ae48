#include <set>
#include <utility>

#include "harness/scenario/parts_json.hpp"
#include "harness/scenario/refusal.hpp"

namespace shardproof::scenario {

namespace {

using Json = nlohmann::ordered_json;

template <class Kind>
Json named_costs(const std::map<std::pair<Kind, std::string>, Nanoseconds>& costs, Kind kind) {
  Json json = Json::object();
  for (const auto& [which, cost] : costs) {
    if (which.first == kind) json[which.second] = duration_text(cost);
  }
  return json;
}

template <class Kind>
std::map<std::pair<Kind, std::string>, Nanoseconds> read_named(const Node& node, Kind kind) {
  std::map<std::pair<Kind, std::string>, Nanoseconds> costs;
  for (const auto& [name, cost] : node.members()) costs[{kind, name}] = cost.duration();
  return costs;
}

// The kinds that have a cost.
template <class Kind, class Each>
std::set<Kind> kinds(const std::map<Kind, Each>& each,
                     const std::map<std::pair<Kind, std::string>, Nanoseconds>& named) {
  std::set<Kind> all;
  for (const auto& entry : each) all.insert(entry.first);
  for (const auto& entry : named) all.insert(entry.first.first);
  return all;
}

Json write_work(const CostModel& costs, WorkKind kind) {
  const Json labelled = named_costs(costs.labelled_work, kind);
  const auto each = costs.work.find(kind);
  if (labelled.empty()) return duration_text(each->second);
  Json json = Json::object();
  if (each != costs.work.end()) json["each"] = duration_text(each->second);
  json["labelled"] = labelled;
  return json;
}

Json write_collective(const CostModel& costs, CollectiveKind kind) {
  const Json tagged = named_costs(costs.tagged_collectives, kind);
  const auto each = costs.collectives.find(kind);
  if (tagged.empty() && each->second.per_kib == 0) return duration_text(each->second.fixed);
  Json json = Json::object();
  if (each != costs.collectives.end()) {
    json["fixed"] = duration_text(each->second.fixed);
    if (each->second.per_kib != 0) json["per_kib"] = duration_text(each->second.per_kib);
  }
  if (!tagged.empty()) json["tagged"] = tagged;
  return json;
}

}  // namespace

Json write_costs(const CostModel& costs, const DeviceOptions& device) {
  Json json = Json::object();
  for (const WorkKind kind : kinds(costs.work, costs.labelled_work)) {
    json["work"][std::string(to_string(kind))] = write_work(costs, kind);
  }
  for (const CollectiveKind kind : kinds(costs.collectives, costs.tagged_collectives)) {
    json["collectives"][std::string(to_string(kind))] = write_collective(costs, kind);
  }
  if (costs.host_call != 0) json["host_call"] = duration_text(costs.host_call);
  if (device.separate_resources) json["separate_resources"] = true;
  if (device.imagined_ranks != 0) json["imagined_ranks"] = device.imagined_ranks;
  if (device.single_stream) json["single_stream"] = true;
  if (device.hide_undeclared_memory) json["hide_undeclared_memory"] = true;
  return json;
}

namespace {

template <class Kind>
Kind read_kind(const std::string& name, const Node& node, Kind last) {
  const Json text = name;
  return Node(text, member_place(node.place(), name)).choice(last);
}

void read_work(const Node& node, CostModel& costs) {
  for (const auto& [name, cost] : node.members()) {
    const WorkKind kind = read_kind(name, node, WorkKind::other);
    if (!cost.is_object()) {
      costs.work[kind] = cost.duration();
      continue;
    }
    cost.expect_keys({"each", "labelled"});
    if (const auto each = cost.find("each")) costs.work[kind] = each->duration();
    if (const auto labelled = cost.find("labelled")) costs.labelled_work.merge(read_named(*labelled, kind));
  }
}

void read_collectives(const Node& node, CostModel& costs) {
  for (const auto& [name, cost] : node.members()) {
    const CollectiveKind kind = read_kind(name, node, CollectiveKind::coalesced);
    if (!cost.is_object()) {
      costs.collectives[kind] = {.fixed = cost.duration()};
      continue;
    }
    cost.expect_keys({"fixed", "per_kib", "tagged"});
    const auto fixed = cost.find("fixed");
    const auto per_kib = cost.find("per_kib");
    if (fixed || per_kib) {
      costs.collectives[kind] = {.fixed = fixed ? fixed->duration() : 0, .per_kib = per_kib ? per_kib->duration() : 0};
    }
    if (const auto tagged = cost.find("tagged")) costs.tagged_collectives.merge(read_named(*tagged, kind));
  }
}

}  // namespace

void read_costs(const Node& node, CostModel& costs, DeviceOptions& device) {
  node.expect_keys({"work", "collectives", "host_call", "separate_resources", "imagined_ranks", "single_stream",
                    "hide_undeclared_memory"});
  if (const auto work = node.find("work")) read_work(*work, costs);
  if (const auto collectives = node.find("collectives")) read_collectives(*collectives, costs);
  if (const auto host_call = node.find("host_call")) costs.host_call = host_call->duration();
  if (const auto separate = node.find("separate_resources")) device.separate_resources = separate->boolean();
  if (const auto imagined = node.find("imagined_ranks")) {
    device.imagined_ranks = static_cast<int>(imagined->integer(2, DeviceOptions::most_imagined_ranks));
  }
  if (const auto single = node.find("single_stream")) device.single_stream = single->boolean();
  if (const auto hide = node.find("hide_undeclared_memory")) device.hide_undeclared_memory = hide->boolean();
}

}  // namespace shardproof::scenario
