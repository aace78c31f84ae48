#include "harness/protocol/play_result.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <system_error>

#include "harness/base/json_fields.hpp"
#include "harness/protocol/step_graph_json.hpp"
#include "harness/protocol/trace_json.hpp"

namespace shardproof::protocol {

using base::Fields;

namespace {

using Json = nlohmann::ordered_json;

Json write(const PlayedTensor& tensor) {
  return {{"name", tensor.name},
          {"shape", tensor.shape},
          {"dim", tensor.dim},
          {"start", tensor.start},
          {"dtype", to_string(tensor.dtype)},
          {"bits", tensor.bits}};
}

Json write(const std::vector<PlayedTensor>& tensors) {
  Json json = Json::array();
  for (const PlayedTensor& tensor : tensors) json.push_back(write(tensor));
  return json;
}

std::vector<PlayedTensor> read_tensors(const Fields& fields, const char* name) {
  std::vector<PlayedTensor> tensors;
  for (const Json& element : fields.array(name)) {
    const Fields tensor(element, "played tensor");
    PlayedTensor& read = tensors.emplace_back();
    read.name = tensor.text("name");
    for (const Json& extent : tensor.array("shape"))
      read.shape.push_back(base::read_integer<std::int64_t>(extent, tensor.where("shape")));
    read.dim = tensor.integer<int>("dim");
    read.start = tensor.integer<std::int64_t>("start");
    read.dtype = base::read_enum(tensor, "dtype", DType::u8);
    read.bits = tensor.text("bits");
  }
  return tensors;
}

float read_float(const Fields& fields, const char* name) {
  const std::string& text = fields.text(name);
  std::uint32_t bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size())
    base::refuse(fields.where(name), "the bits of an f32 in 8 hexadecimal digits", fields.at(name, "a text"));
  return std::bit_cast<float>(bits);
}

Json write(const PhaseTimes& times) {
  Json json = Json::object();
  if (times.forward) json["forward"] = *times.forward;
  if (times.forward_backward) json["forward_backward"] = *times.forward_backward;
  if (times.exposed) json["exposed"] = *times.exposed;
  for (const PhaseTimes& micro_batch : times.micro_batches) json["micro_batches"].push_back(write(micro_batch));
  return json;
}

PhaseTimes read_phases(const Json& json) {
  const Fields fields(json, "phases");
  const auto time = [&](const char* name) {
    return fields.has(name) ? std::optional(fields.integer<Nanoseconds>(name)) : std::nullopt;
  };
  PhaseTimes read{time("forward"), time("forward_backward"), time("exposed"), {}};
  if (!fields.has("micro_batches")) return read;
  for (const Json& micro_batch : fields.array("micro_batches")) read.micro_batches.push_back(read_phases(micro_batch));
  return read;
}

Json write(const PlayTimes& times) {
  Json json{{"total", times.total}, {"phases", Json::array()}, {"trace", times.trace}};
  for (const PhaseTimes& phases : times.phases) json["phases"].push_back(write(phases));
  return json;
}

PlayTimes read_times(const Json& json) {
  const Fields fields(json, "play times");
  PlayTimes read{.total = fields.integer<Nanoseconds>("total")};
  for (const Json& phases : fields.array("phases")) read.phases.push_back(read_phases(phases));
  from_json(fields.object("trace"), read.trace);
  return read;
}

Json write(const PlayedHookCall& call) {
  Json json{{"iteration", call.iteration}, {"call", call.during},           {"hook", call.hook},
            {"point", call.point},         {"state", call.state},           {"label", call.label},
            {"count", call.count},         {"dtype", to_string(call.dtype)}};
  if (call.collective) json["collective"] = *call.collective;
  return json;
}

PlayedHookCall read_hook_call(const Json& json) {
  const Fields fields(json, "hook call");
  PlayedHookCall read{.iteration = fields.integer<int>("iteration"),
                      .during = fields.text("call"),
                      .hook = fields.text("hook"),
                      .point = fields.text("point"),
                      .state = fields.integer<std::uint64_t>("state"),
                      .label = fields.text("label"),
                      .count = fields.integer<std::int64_t>("count"),
                      .dtype = base::read_enum(fields, "dtype", DType::u8)};
  if (fields.has("collective")) read.collective = fields.integer<std::size_t>("collective");
  return read;
}

// A double as a text: JSON has no infinity and no NaN.
double read_double(const Fields& fields, const char* name) {
  const std::string& text = fields.text(name);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    base::refuse(fields.where(name), "a number as a text", fields.at(name, "a text"));
  return number;
}

Json write(const PlayedClip& clip) {
  Json json{{"iteration", clip.iteration},
            {"max_norm", fmt::format("{}", clip.max_norm)},
            {"norm_type", fmt::format("{}", clip.norm_type)},
            {"parts", Json::array()}};
  for (const PlayedClip::Part& part : clip.parts)
    json["parts"].push_back({{"name", part.name}, {"start", part.start}, {"power", fmt::format("{}", part.power)}});
  return json;
}

PlayedClip read_clip(const Json& json) {
  const Fields fields(json, "clip");
  PlayedClip read{.iteration = fields.integer<int>("iteration"),
                  .max_norm = read_double(fields, "max_norm"),
                  .norm_type = read_double(fields, "norm_type"),
                  .parts = {}};
  for (const Json& element : fields.array("parts")) {
    const Fields part(element, "part of a clip");
    read.parts.push_back({part.text("name"), part.integer<std::int64_t>("start"), read_double(part, "power")});
  }
  return read;
}

PlayedStep read_step(const Json& json, std::size_t plans) {
  const Fields fields(json, "compiled step");
  PlayedStep read{.iteration = fields.integer<int>("iteration"),
                  .backward = fields.integer<int>("backward"),
                  .plan = fields.integer<std::size_t>("plan")};
  if (read.plan >= plans)
    base::refuse(fields.where("plan"), fmt::format("one of {} plans", plans), fields.at("plan", "an integer"));
  return read;
}

}  // namespace

std::string bits_of(float value) { return fmt::format("{:08x}", std::bit_cast<std::uint32_t>(value)); }

void to_json(Json& json, const PlayResult& result) {
  json = Json{{"rank", result.rank},         {"times", write(result.times)}, {"iterations", Json::array()},
              {"warnings", result.warnings}, {"hook_calls", Json::array()},  {"refusals", result.refusals}};
  for (const PlayedHookCall& call : result.hook_calls) json["hook_calls"].push_back(write(call));
  if (result.measured) json["measured"] = write(*result.measured);
  for (const PlayedIteration& iteration : result.iterations) {
    Json& written = json["iterations"].emplace_back(Json{{"iteration", iteration.iteration},
                                                         {"loss", bits_of(iteration.loss)},
                                                         {"gradients", write(iteration.gradients)},
                                                         {"parameters", write(iteration.parameters)}});
    if (!iteration.seconds.empty()) written["seconds"] = write(iteration.seconds);
  }
  for (const PlayedClip& clip : result.clips) json["clips"].push_back(write(clip));
  if (!result.micro_batches.empty()) json["micro_batches"] = result.micro_batches;
  if (result.compiled_steps.empty()) return;
  json["plans"] = result.plans;
  json["compiled_steps"] = Json::array();
  for (const PlayedStep& step : result.compiled_steps)
    json["compiled_steps"].push_back({{"iteration", step.iteration}, {"backward", step.backward}, {"plan", step.plan}});
}

void from_json(const Json& json, PlayResult& result) {
  const Fields fields(json, "play result");
  PlayResult read{.rank = fields.integer<int>("rank"), .times = read_times(fields.object("times"))};
  if (fields.has("measured")) read.measured = read_times(fields.object("measured"));
  for (const Json& element : fields.array("iterations")) {
    const Fields iteration(element, "played iteration");
    read.iterations.push_back({.iteration = iteration.integer<int>("iteration"),
                               .loss = read_float(iteration, "loss"),
                               .gradients = read_tensors(iteration, "gradients"),
                               .parameters = read_tensors(iteration, "parameters")});
    if (iteration.has("seconds")) read.iterations.back().seconds = read_tensors(iteration, "seconds");
  }
  read.warnings = fields.texts("warnings");
  for (const Json& call : fields.array("hook_calls")) read.hook_calls.push_back(read_hook_call(call));
  read.refusals = fields.texts("refusals");
  if (fields.has("clips")) {
    for (const Json& clip : fields.array("clips")) read.clips.push_back(read_clip(clip));
  }
  if (fields.has("micro_batches")) {
    for (const Json& number : fields.array("micro_batches"))
      read.micro_batches.push_back(base::read_integer<int>(number, "micro_batches"));
  }
  if (fields.has("compiled_steps")) {
    for (const Json& plan : fields.array("plans")) read.plans.push_back(plan.get<std::vector<StepGraph>>());
    for (const Json& step : fields.array("compiled_steps"))
      read.compiled_steps.push_back(read_step(step, read.plans.size()));
  }
  result = std::move(read);
}

}  // namespace shardproof::protocol
