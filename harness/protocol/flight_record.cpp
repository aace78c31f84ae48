#include "harness/protocol/flight_record.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "harness/base/json_fields.hpp"

namespace shardproof::protocol {

using base::Fields;
using base::read_enum;

using What = FlightEntry::What;
using State = FlightEntry::State;

const FlightGroup* FlightRecord::find_group(std::uint64_t id) const {
  const auto found = std::ranges::find(groups, id, &FlightGroup::id);
  return found == groups.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> FlightRecord::last_case() const {
  const auto last = std::find_if(entries.rbegin(), entries.rend(),
                                 [](const FlightEntry& entry) { return entry.what == What::case_begun; });
  return last == entries.rend() ? case_begun : last->place;
}

const FlightEntry* FlightRecord::last_call() const {
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->what == What::call) return &*entry;
    if (entry->what == What::case_begun) return nullptr;
  }
  return nullptr;
}

const FlightEntry* FlightRecord::waits_in() const {
  if (entries.empty()) return nullptr;
  auto entry = entries.rbegin();
  if (entry->what == What::call) return entry->state == State::left ? nullptr : &*entry;
  if (entry->what == What::agreement && entry->state != State::open) return nullptr;
  const FlightEntry* const agreement = entry->what == What::agreement ? &*entry : nullptr;
  // A rank that was released or gave up has gone on to the end of its case, and waits for the others there. Its first
  // wait says more.
  if (agreement != nullptr) ++entry;
  if (entry != entries.rend() && entry->what == What::body_ended) ++entry;
  const bool was_cut = entry != entries.rend() && entry->what == What::call && entry->state != State::left;
  return was_cut ? &*entry : agreement;
}

std::string describe(const FlightEntry& call, const FlightRecord& record) {
  const FlightGroup* const group = record.find_group(call.group);
  return fmt::format("{} in group {}", describe(call.call), group == nullptr ? "of an unknown name" : group->name);
}

namespace {

/// Decides by the rank's last actions: a call that it left without a result, then perhaps the end of the body, then
/// perhaps an agreement.
bool has_given_up(const FlightRecord& record) {
  auto entry = record.entries.rbegin();
  if (entry != record.entries.rend() && entry->what == What::agreement) ++entry;
  const bool left_body = entry != record.entries.rend() && entry->what == What::body_ended;
  if (left_body) ++entry;
  if (entry == record.entries.rend() || entry->what != What::call) return false;
  return entry->state == State::released ||
         (left_body && (entry->state == State::given_up || entry->state == State::refused));
}

/// True once the rank has reached the wanted call or agreement. The rank may be further. Its record still proves that,
/// because it cannot pass a call in which others still wait.
bool has_come(const FlightRecord& record, const FlightEntry& wanted) {
  return std::ranges::any_of(record.entries, [&](const FlightEntry& theirs) {
    if (theirs.what != wanted.what) return false;
    if (wanted.what == What::agreement) return theirs.place >= wanted.place;
    if (theirs.group != wanted.group || theirs.place != wanted.place) return false;
    return theirs.call.sequence > wanted.call.sequence ||
           (theirs.call.sequence == wanted.call.sequence && theirs.meetings >= wanted.meetings);
  });
}

PeerWait wait_in(const std::vector<FlightRecord>& ranks, int rank, const FlightEntry& entry) {
  const FlightRecord& record = ranks[static_cast<std::size_t>(rank)];
  PeerWait wait{.rank = rank, .entry = &entry};
  const FlightGroup* const group = entry.what == What::call ? record.find_group(entry.group) : nullptr;
  wait.is_of_unknown = entry.what == What::call && group == nullptr;
  wait.ends_case =
      entry.what == What::agreement && &entry != &record.entries.front() && std::prev(&entry)->what == What::body_ended;
  if (wait.is_of_unknown) return wait;
  for (int other = 0; std::cmp_less(other, ranks.size()); ++other) {
    const bool takes_part = group == nullptr || std::ranges::binary_search(group->members, other);
    if (other != rank && takes_part && !has_come(ranks[static_cast<std::size_t>(other)], entry))
      wait.missing.push_back(other);
  }
  return wait;
}

}  // namespace

bool is_over(const std::vector<FlightRecord>& ranks) { return std::ranges::any_of(ranks, has_given_up); }

std::vector<PeerWait> waits(const std::vector<FlightRecord>& ranks) {
  const bool case_is_over = is_over(ranks);
  std::vector<PeerWait> result;
  for (int rank = 0; std::cmp_less(rank, ranks.size()); ++rank) {
    const FlightRecord& record = ranks[static_cast<std::size_t>(rank)];
    const FlightEntry* const entry = record.waits_in();
    if (entry == nullptr || (case_is_over && entry->what == What::call && entry->state == State::open)) continue;
    PeerWait wait = wait_in(ranks, rank, *entry);
    // A rank may stop after it has entered a call and before it sends anything. Then the others wait for it at the end.
    const FlightEntry& last = record.entries.back();
    if (!wait.is_for_others() && last.what == What::agreement) wait = wait_in(ranks, rank, last);
    result.push_back(std::move(wait));
  }
  return result;
}

bool is_held_up(const std::vector<PeerWait>& waits, int rank) {
  return std::ranges::any_of(waits, [rank](const PeerWait& wait) { return wait.rank == rank && wait.is_for_others(); });
}

// -- JSON -------------------------------------------------------------------------------------------------------------

std::string_view to_string(What what) {
  return base::name_of<What::left>(what, {"case_begun", "body_ended", "agreement", "call", "left"});
}

std::string_view to_string(State state) {
  return base::name_of<State::refused>(state, {"open", "left", "released", "given_up", "refused"});
}

namespace {

using Json = nlohmann::ordered_json;

Json write(const FlightEntry& entry) {
  Json json{{"what", to_string(entry.what)}, {"place", entry.place}};
  if (entry.what == What::call || entry.what == What::agreement) json["state"] = to_string(entry.state);
  if (entry.since_ns != 0) json["since_ns"] = entry.since_ns;
  if (entry.what != What::call) return json;
  json["group"] = entry.group;
  json["meetings"] = entry.meetings;
  json["sequence"] = entry.call.sequence;
  json["kind"] = to_string(entry.call.kind);
  json["count"] = entry.call.count;
  json["dtype"] = to_string(entry.call.dtype);
  if (entry.call.op != ReduceOp::none) json["op"] = to_string(entry.call.op);
  if (entry.call.op == ReduceOp::premul_sum) json["factor"] = entry.call.factor;
  if (entry.call.root >= 0) json["root"] = entry.call.root;
  if (!entry.call.tag_view().empty()) json["tag"] = entry.call.tag_view();
  return json;
}

FlightEntry read_entry(const Json& json) {
  const Fields fields(json, "flight entry");
  FlightEntry entry;
  entry.what = read_enum(fields, "what", What::left);
  entry.place = fields.integer<std::uint64_t>("place");
  if (fields.has("state")) entry.state = read_enum(fields, "state", State::refused);
  if (fields.has("since_ns")) entry.since_ns = fields.integer<std::int64_t>("since_ns");
  if (entry.what != What::call) return entry;
  entry.group = fields.integer<std::uint64_t>("group");
  entry.meetings = fields.integer<std::uint64_t>("meetings");
  entry.call.sequence = fields.integer<std::uint64_t>("sequence");
  entry.call.kind = read_enum(fields, "kind", CollectiveKind::coalesced);
  entry.call.count = fields.integer<std::uint64_t>("count");
  entry.call.dtype = read_enum(fields, "dtype", DType::u8);
  if (fields.has("op")) entry.call.op = read_enum(fields, "op", ReduceOp::min);
  if (fields.has("factor")) entry.call.factor = fields.number("factor");
  if (fields.has("root")) entry.call.root = fields.integer<std::int32_t>("root");
  if (fields.has("tag")) entry.call.set_tag(fields.text("tag"));
  return entry;
}

FlightGroup read_group(const Json& json) {
  const Fields fields(json, "flight group");
  FlightGroup group;
  group.id = fields.integer<std::uint64_t>("id");
  group.name = fields.text("name");
  for (const Json& member : fields.array("members"))
    group.members.push_back(base::read_integer<int>(member, fields.where("members")));
  std::ranges::sort(group.members);
  return group;
}

}  // namespace

void to_json(Json& json, const FlightSnapshot& snapshot) {
  Json ranks = Json::array();
  for (const FlightRecord& record : snapshot.ranks) {
    Json entries = Json::array(), groups = Json::array();
    for (const FlightEntry& entry : record.entries) entries.push_back(write(entry));
    for (const FlightGroup& group : record.groups)
      groups.push_back({{"id", group.id}, {"name", group.name}, {"members", group.members}});
    Json& rank = ranks.emplace_back(Json{{"begun", record.begun}, {"is_writing", record.is_writing}});
    if (record.case_begun) rank["case_begun"] = *record.case_begun;
    rank["groups"] = std::move(groups);
    rank["entries"] = std::move(entries);
  }
  json = Json{{"taken_ns", snapshot.taken_ns}, {"ranks", std::move(ranks)}};
  if (!snapshot.begun_later.empty()) json["begun_later"] = snapshot.begun_later;
}

void from_json(const Json& json, FlightSnapshot& snapshot) {
  const Fields fields(json, "flight record");
  snapshot.taken_ns = fields.integer<std::int64_t>("taken_ns");
  snapshot.ranks.clear();
  snapshot.begun_later.clear();
  if (fields.has("begun_later")) {
    for (const Json& begun : fields.array("begun_later"))
      snapshot.begun_later.push_back(base::read_integer<std::uint64_t>(begun, fields.where("begun_later")));
  }
  for (const Json& rank : fields.array("ranks")) {
    const Fields of_rank(rank, "flight record of a rank");
    FlightRecord& record = snapshot.ranks.emplace_back();
    record.begun = of_rank.integer<std::uint64_t>("begun");
    record.is_writing = of_rank.boolean("is_writing");
    if (of_rank.has("case_begun")) record.case_begun = of_rank.integer<std::uint64_t>("case_begun");
    for (const Json& entry : of_rank.array("entries")) record.entries.push_back(read_entry(entry));
    for (const Json& group : of_rank.array("groups")) record.groups.push_back(read_group(group));
  }
}

}  // namespace shardproof::protocol
