#include <fmt/format.h>

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

Json write_untagged(const CollectiveCost& cost) {
  if (cost.per_kib == 0) return duration_text(cost.fixed);
  return {{"fixed", duration_text(cost.fixed)}, {"per_kib", duration_text(cost.per_kib)}};
}

Json write_collective(const CostModel& costs, CollectiveKind kind) {
  const Json tagged = named_costs(costs.tagged_collectives, kind);
  const auto each = costs.collectives.find(kind);
  if (tagged.empty()) return write_untagged(each->second);
  Json json = Json::object();
  if (each != costs.collectives.end()) json["each"] = write_untagged(each->second);
  json["tagged"] = tagged;
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
  return Node(text, member_place(node.place(), name)).choice(last, "kind");
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

CollectiveCost read_untagged(const Node& node) {
  if (!node.is_object()) return {.fixed = node.duration()};
  node.expect_keys({"fixed", "per_kib"});
  const auto fixed = node.find("fixed");
  const auto per_kib = node.find("per_kib");
  return {.fixed = fixed ? fixed->duration() : 0, .per_kib = per_kib ? per_kib->duration() : 0};
}

// A reader of the document could think that `fixed` beside `tagged` is also part of the cost of tagged collectives.
void refuse_with_tagged(const Node& node) {
  for (const char* const key : {"fixed", "per_kib"}) {
    if (node.has(key))
      fail(member_place(node.place(), key),
           fmt::format("not clear beside \"tagged\"; write the cost of collectives with other tags as \"each\": "
                       "{{\"{}\": …}}",
                       key));
  }
}

void read_collectives(const Node& node, CostModel& costs) {
  for (const auto& [name, cost] : node.members()) {
    const CollectiveKind kind = read_kind(name, node, CollectiveKind::coalesced);
    if (!cost.is_object() || !(cost.has("each") || cost.has("tagged"))) {
      costs.collectives[kind] = read_untagged(cost);
      continue;
    }
    refuse_with_tagged(cost);
    cost.expect_keys({"each", "tagged"});
    if (const auto each = cost.find("each")) costs.collectives[kind] = read_untagged(*each);
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
