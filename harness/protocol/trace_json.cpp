#include "harness/protocol/trace_json.hpp"

#include <fmt/format.h>

#include <utility>

#include "harness/base/json_fields.hpp"

namespace shardproof {

using base::Fields;
using base::read_enum;
using base::read_integer;

namespace {

using Json = nlohmann::ordered_json;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

void put_ranges(Json& json, const char* name, const std::vector<ByteRange>& ranges) {
  if (ranges.empty()) return;
  Json list = Json::array();
  for (const ByteRange& range : ranges) list.push_back(Json::array({range.buffer, range.offset, range.length}));
  json[name] = std::move(list);
}

void put_touched(Json& json, const std::vector<ByteRange>& reads, const std::vector<ByteRange>& writes) {
  put_ranges(json, "reads", reads);
  put_ranges(json, "writes", writes);
}

Json write(const Fact& fact) {
  return std::visit(
      Overloaded{
          [](const fact::StreamCreated& f) {
            return Json{{"fact", "stream"}, {"stream", f.stream}, {"role", to_string(f.role)}, {"name", f.name}};
          },
          [](const fact::Work& f) {
            Json json{{"fact", "work"},   {"stream", f.stream}, {"kind", to_string(f.kind)},
                      {"label", f.label}, {"start", f.start},   {"end", f.end}};
            put_touched(json, f.reads, f.writes);
            return json;
          },
          [](const fact::Collective& f) {
            Json json{{"fact", "collective"},      {"stream", f.stream},
                      {"kind", to_string(f.kind)}, {"dtype", to_string(f.dtype)},
                      {"op", to_string(f.op)},     {"in", f.in_count},
                      {"out", f.out_count},        {"sequence", f.sequence},
                      {"group", f.group},          {"tag", f.tag},
                      {"start", f.start},          {"end", f.end}};
            put_touched(json, f.reads, f.writes);
            return json;
          },
          [](const fact::EventRecorded& f) {
            return Json{{"fact", "record"}, {"stream", f.stream}, {"event", f.event}};
          },
          [](const fact::EventWaited& f) { return Json{{"fact", "wait"}, {"stream", f.stream}, {"event", f.event}}; },
          [](const fact::StreamSynchronized& f) { return Json{{"fact", "stream_sync"}, {"stream", f.stream}}; },
          [](const fact::EventSynchronized& f) { return Json{{"fact", "event_sync"}, {"event", f.event}}; },
          [](const fact::Allocated& f) {
            Json json{{"fact", "allocate"}, {"stream", f.stream},           {"buffer", f.buffer},
                      {"bytes", f.bytes},   {"class", to_string(f.memory)}, {"label", f.label}};
            if (f.adopted) json["adopted"] = true;
            return json;
          },
          [](const fact::Released& f) {
            Json json{{"fact", "release"}, {"stream", f.stream}, {"buffer", f.buffer}};
            if (f.to_cache) json["to_cache"] = true;
            return json;
          },
          [](const fact::HostAccess& f) {
            Json json{{"fact", "host_access"}, {"label", f.label}};
            put_touched(json, f.reads, f.writes);
            return json;
          },
          [](const fact::Mark& f) { return Json{{"fact", "mark"}, {"text", f.text}, {"time", f.time}}; },
      },
      fact);
}

std::vector<ByteRange> read_ranges(const Fields& fields, const char* name) {
  std::vector<ByteRange> ranges;
  if (!fields.has(name)) return ranges;
  const std::string where = fields.where(name);
  for (const Json& range : fields.array(name)) {
    if (!range.is_array() || range.size() != 3)
      base::refuse(where, "ranges of three numbers, [buffer, offset, length]", range);
    ranges.push_back({read_integer<std::uint64_t>(range[0], where), read_integer<std::uint64_t>(range[1], where),
                      read_integer<std::uint64_t>(range[2], where)});
  }
  return ranges;
}

Fact read(const Fields& f, const std::string& kind, const std::string& where) {
  const auto stream = [&] { return f.integer<std::uint32_t>("stream"); };
  const auto event = [&] { return f.integer<std::uint64_t>("event"); };
  const auto buffer = [&] { return f.integer<std::uint64_t>("buffer"); };
  const auto time = [&](const char* name) { return f.integer<Nanoseconds>(name); };
  if (kind == "stream") return fact::StreamCreated{stream(), read_enum(f, "role", StreamRole::other), f.text("name")};
  if (kind == "work") {
    return fact::Work{.stream = stream(),
                      .kind = read_enum(f, "kind", WorkKind::other),
                      .label = f.text("label"),
                      .start = time("start"),
                      .end = time("end"),
                      .reads = read_ranges(f, "reads"),
                      .writes = read_ranges(f, "writes")};
  }
  if (kind == "collective") {
    std::vector<int> group;
    for (const Json& member : f.array("group")) group.push_back(read_integer<int>(member, f.where("group")));
    return fact::Collective{.stream = stream(),
                            .kind = read_enum(f, "kind", CollectiveKind::coalesced),
                            .dtype = read_enum(f, "dtype", DType::u8),
                            .op = read_enum(f, "op", ReduceOp::min),
                            .in_count = f.integer<std::uint64_t>("in"),
                            .out_count = f.integer<std::uint64_t>("out"),
                            .sequence = f.integer<std::uint64_t>("sequence"),
                            .group = std::move(group),
                            .tag = f.text("tag"),
                            .start = time("start"),
                            .end = time("end"),
                            .reads = read_ranges(f, "reads"),
                            .writes = read_ranges(f, "writes")};
  }
  if (kind == "record") return fact::EventRecorded{stream(), event()};
  if (kind == "wait") return fact::EventWaited{stream(), event()};
  if (kind == "stream_sync") return fact::StreamSynchronized{stream()};
  if (kind == "event_sync") return fact::EventSynchronized{event()};
  if (kind == "allocate") {
    return fact::Allocated{.stream = stream(),
                           .buffer = buffer(),
                           .bytes = f.integer<std::uint64_t>("bytes"),
                           .memory = read_enum(f, "class", MemoryClass::other),
                           .label = f.text("label"),
                           .adopted = f.has("adopted") && f.boolean("adopted")};
  }
  if (kind == "release") return fact::Released{stream(), buffer(), f.has("to_cache") && f.boolean("to_cache")};
  if (kind == "host_access")
    return fact::HostAccess{f.text("label"), read_ranges(f, "reads"), read_ranges(f, "writes")};
  if (kind == "mark") return fact::Mark{f.text("text"), time("time")};
  throw std::invalid_argument(fmt::format("{}: no fact is called \"{}\"", where, kind));
}

}  // namespace

void to_json(Json& json, const Trace& trace) {
  json = Json{{"rank", trace.rank}, {"facts", Json::array()}};
  Json& facts = json["facts"];
  for (const Fact& fact : trace.facts) facts.push_back(write(fact));
}

void from_json(const Json& json, Trace& trace) {
  const Fields fields(json, "trace");
  Trace read_trace{.rank = fields.integer<int>("rank"), .facts = {}};
  for (const Json& element : fields.array("facts")) {
    const std::string where = fmt::format("trace: fact {}", read_trace.facts.size());
    const Fields fact(element, where);
    const std::string& kind = fact.text("fact");
    const std::string what = fmt::format("{} ({})", where, kind);
    read_trace.facts.push_back(read(Fields(element, what), kind, where));
  }
  trace = std::move(read_trace);
}

}  // namespace shardproof
