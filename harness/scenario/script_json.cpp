#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "harness/scenario/calls.hpp"
#include "harness/scenario/parts_json.hpp"
#include "harness/scenario/refusal.hpp"

namespace shardproof::scenario {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t most_iterations = 1'000'000;

void write(const Extension& extension, Json& json) {
  if (extension.parameter.empty()) {
    json["tensor"] = to_string(extension.tensor);
  } else {
    json["parameter"] = extension.parameter;
  }
  json["extension"] = to_string(extension.kind);
  if (extension.form != Extension().form) json["form"] = to_string(extension.form);
  if (extension.pre && extension.post) return;
  Json& hooks = json["hooks"] = Json::array();
  if (extension.pre) hooks.push_back("pre");
  if (extension.post) hooks.push_back("post");
}

void read_hooks(const Node& node, Extension& extension) {
  extension.pre = extension.post = false;
  for (const Node& name : node.elements()) {
    const bool is_pre = name.is_text() && name.text() == "pre", is_post = name.is_text() && name.text() == "post";
    bool& named = is_pre ? extension.pre : extension.post;
    if ((!is_pre && !is_post) || named) name.fail("\"pre\" or \"post\", each once at most");
    named = true;
  }
}

Extension read_extension(const Node& node) {
  Extension extension;
  if (node.has("parameter") == node.has("tensor")) node.fail("what it is for, as \"parameter\" or as \"tensor\"");
  if (const auto parameter = node.find("parameter")) extension.parameter = parameter->nonempty_text();
  if (const auto tensor = node.find("tensor")) {
    extension.tensor = tensor->choice(TensorKind::low_precision);
    if (extension.tensor == TensorKind::plain)
      tensor->fail("a kind that is not plain: plain parameters are named one by one");
  }
  extension.kind = node.choice_at("extension", ExtensionKind::truncated);
  if (const auto form = node.find("form")) extension.form = form->choice(ExtensionForm::full);
  if (const auto hooks = node.find("hooks")) read_hooks(*hooks, extension);
  return extension;
}

double read_norm_type(const Node& node) {
  if (!node.is_text()) return node.positive_number();
  if (node.text() != "infinity") node.fail("a positive number or \"infinity\"");
  return std::numeric_limits<double>::infinity();
}

void write(const Hook& hook, Json& json) {
  const Hook usual;
  json["hook"] = to_string(hook.kind);
  if (hook.point != usual.point) json["point"] = to_string(hook.point);
  if (hook.state != usual.state) json["state"] = hook.state;
  if (hook.direct) json["direct"] = true;
  if (hook.refused) json["refused"] = true;
  if (!hook.fails_on.empty()) json["fails_on"] = hook.fails_on;
}

bool read_to_zero(const Node& node) {
  if (!node.is_text() || (node.text() != "zero" && node.text() != "none")) node.fail("\"zero\" or \"none\"");
  return node.text() == "zero";
}

std::vector<int> read_ranks(const Node& node) {
  std::set<int> ranks;
  for (const Node& rank : node.elements()) {
    if (!ranks.insert(static_cast<int>(rank.integer(0, most_ranks - 1))).second) rank.fail("each rank once");
  }
  if (ranks.empty()) node.fail("at least one rank: leave the key out for all");
  return {ranks.begin(), ranks.end()};
}

Hook read_hook(const Node& node) {
  Hook hook{.kind = node.choice_at("hook", HookKind::not_callable)};
  if (const auto point = node.find("point")) hook.point = point->choice(HookPoint::after_accumulation);
  if (const auto state = node.find("state")) hook.state = state->integer(0, std::numeric_limits<std::int32_t>::max());
  if (const auto direct = node.find("direct")) hook.direct = direct->boolean();
  if (const auto refused = node.find("refused")) hook.refused = refused->boolean();
  if (const auto ranks = node.find("fails_on")) hook.fails_on = read_ranks(*ranks);
  return hook;
}

std::vector<double> read_input(const Node& node) {
  std::vector<double> values;
  for (const Node& value : node.elements()) values.push_back(value.number());
  return values;
}

// The given inputs, by iteration and then by rank.
std::vector<std::vector<std::vector<double>>> read_given(const Node& node) {
  std::vector<std::vector<std::vector<double>>> given;
  for (const Node& iteration : node.elements()) {
    auto& ranks = given.emplace_back();
    for (const Node& rank : iteration.elements()) ranks.push_back(read_input(rank));
    if (ranks.empty()) iteration.fail("the input of at least one rank");
  }
  if (given.empty()) node.fail("inputs for at least one iteration");
  return given;
}

}  // namespace

Json write_action(const Action& action) {
  const CallArguments& has = call_of(action.kind).arguments;
  if (!has.required() && action == Action{.kind = action.kind}) return to_string(action.kind);
  Json json{{"call", to_string(action.kind)}};
  if (!action.module.empty()) json["module"] = action.module;
  if (action.fails_in) json["fails_in"] = *action.fails_in;
  if (!action.paths.empty()) json["paths"] = action.paths;
  if (action.by_method) json["method"] = true;
  if (has.value) json["value"] = action.value;
  if (action.to_zero) json["to"] = "zero";
  if (action.async) json["async"] = true;
  if (action.extension) write(*action.extension, json);
  if (action.hook) write(*action.hook, json);
  if (has.norm) {
    json["max_norm"] = action.max_norm;
    if (std::isinf(action.norm_type)) {
      json["norm_type"] = "infinity";
    } else if (action.norm_type != Action().norm_type) {
      json["norm_type"] = action.norm_type;
    }
  }
  if (action.micro_batch != 0) json["micro_batch"] = action.micro_batch;
  if (!action.ranks.empty()) json["ranks"] = action.ranks;
  return json;
}

Action read_action(const Node& node) {
  if (node.is_text()) {
    const Action action{.kind = node.choice(last_call, "call")};
    if (call_of(action.kind).arguments.required()) node.fail("an object: this call says more than its name");
    return action;
  }
  if (!node.is_object()) node.fail("the name of a call, or an object that has it as \"call\"");
  Action action{.kind = node.choice_at("call", last_call)};
  const CallArguments& has = call_of(action.kind).arguments;
  std::vector<std::string_view> known{"call", "micro_batch", "ranks"};
  if (call_of(action.kind).has_module()) known.push_back("module");
  if (has.fails_in) known.push_back("fails_in");
  if (has.paths) known.push_back("paths");
  if (has.method) known.push_back("method");
  if (has.value) known.push_back("value");
  if (has.async) known.push_back("async");
  if (has.to) known.push_back("to");
  if (has.norm) known.insert(known.end(), {"max_norm", "norm_type"});
  if (has.extension) known.insert(known.end(), {"parameter", "tensor", "extension", "form", "hooks"});
  if (has.hook) known.insert(known.end(), {"hook", "point", "state", "direct", "refused", "fails_on"});
  node.expect_keys(known);
  if (const auto module = node.find("module")) action.module = module->text();
  if (const auto module = node.find("fails_in")) action.fails_in = module->text();
  if (const auto paths = node.find("paths")) {
    for (const auto& [choice, child] : paths->members()) action.paths[choice] = child.nonempty_text();
  }
  if (const auto method = node.find("method")) action.by_method = method->boolean();
  if (has.value) action.value = node.at("value").boolean();
  if (const auto to = node.find("to")) action.to_zero = read_to_zero(*to);
  if (const auto async = node.find("async")) action.async = async->boolean();
  if (has.norm) {
    action.max_norm = node.at("max_norm").positive_number();
    if (const auto type = node.find("norm_type")) action.norm_type = read_norm_type(*type);
  }
  if (has.extension) action.extension = read_extension(node);
  if (has.hook) action.hook = read_hook(node);
  if (const auto number = node.find("micro_batch"))
    action.micro_batch = static_cast<int>(number->integer(0, most_micro_batches - 1));
  if (const auto ranks = node.find("ranks")) action.ranks = read_ranks(*ranks);
  return action;
}

namespace {

// Reads a body, with its blocks of micro-batches written out. Numbers of micro-batches go on from block to block.
class BodyReader {
 public:
  BodyReader(Script::Segment& segment, std::vector<std::string>& places) : segment_(segment), places_(places) {}

  void read(const Node& element) {
    const bool is_block = element.has("micro_batches") || (element.has("body") && !element.has("call"));
    if (!is_block) return add(element, 0);
    element.expect_keys({"micro_batches", "body"});
    const auto count = static_cast<int>(element.at("micro_batches").integer(1, most_micro_batches));
    if (next_ + count > most_micro_batches)
      fail(element.at("micro_batches").place(),
           fmt::format("the blocks up to here have {} micro-batches, and an iteration has at most {}: shorten a block",
                       next_ + count, most_micro_batches));
    const std::vector<Node> calls = element.at("body").elements();
    for (const Node& call : calls) {
      if (call.has("micro_batches"))
        fail(call.place(), "a block of micro-batches cannot contain another block: move it out");
      if (call.has("micro_batch"))
        fail(call.at("micro_batch").place(), "leave \"micro_batch\" out: the block numbers its calls");
    }
    for (int i = 0; i < count; ++i, ++next_) {
      for (const Node& call : calls) add(call, next_);
    }
  }

 private:
  void add(const Node& call, int micro_batch) {
    segment_.body.push_back(read_action(call));
    if (micro_batch > 0) segment_.body.back().micro_batch = micro_batch;
    places_.push_back(call.place());
  }

  Script::Segment& segment_;
  std::vector<std::string>& places_;
  int next_ = 0;
};

}  // namespace

Json write_script(const Script& script) {
  Json json{{"input", script.input}};
  if (script.input_divisor != Script().input_divisor) json["input_divisor"] = script.input_divisor;
  if (!script.given.empty()) json["given"] = script.given;
  if (script.keep_tensors) json["keep_tensors"] = true;
  if (script.enforce_tags) json["enforce_tags"] = true;
  Json& segments = json["segments"] = Json::array();
  for (const Script::Segment& segment : script.segments) {
    Json body = Json::array();
    for (const Action& action : segment.body) body.push_back(write_action(action));
    Json& written = segments.emplace_back(Json::object());
    if (segment.iterations != 1) written["iterations"] = segment.iterations;
    written["body"] = std::move(body);
  }
  return json;
}

Script read_script(const Node& node, CallPlaces& places) {
  node.expect_keys({"input", "input_divisor", "given", "keep_tensors", "enforce_tags", "segments"});
  Script script;
  for (const Node& extent : node.at("input").elements()) script.input.push_back(extent.integer(1, most_features));
  if (const auto divisor = node.find("input_divisor")) script.input_divisor = read_divisor(*divisor);
  if (const auto given = node.find("given")) script.given = read_given(*given);
  if (const auto keep = node.find("keep_tensors")) script.keep_tensors = keep->boolean();
  if (const auto enforce = node.find("enforce_tags")) script.enforce_tags = enforce->boolean();
  for (const Node& segment : node.at("segments").elements()) {
    segment.expect_keys({"iterations", "body"});
    Script::Segment& read = script.segments.emplace_back();
    if (const auto iterations = segment.find("iterations"))
      read.iterations = static_cast<int>(iterations->integer(1, most_iterations));
    BodyReader body(read, places.emplace_back());
    for (const Node& element : segment.at("body").elements()) body.read(element);
  }
  return script;
}

}  // namespace shardproof::scenario
