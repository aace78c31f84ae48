#include "harness/runner/play/play_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <variant>
#include <vector>

#include "harness/base/json_text.hpp"
#include "harness/player/play.hpp"
#include "harness/player/player.hpp"
#include "harness/player/run.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/scenario/document_error.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "harness/trace/timeline.hpp"
#include "harness/world/rank.hpp"

namespace shardproof::runner {

Scenario read_scenario(const std::filesystem::path& document, std::optional<int> world_size) {
  // Every rank reads the document again. The launcher's check whether it can be played reads it, too.
  std::error_code unknown;  // if the path cannot be checked, opening it reports the reason
  if (std::filesystem::exists(document, unknown) && !std::filesystem::is_regular_file(document, unknown))
    throw std::invalid_argument(fmt::format(
        "cannot read the scenario {}: ranks read it several times, so it must be a regular file", document.string()));
  std::ifstream file(document, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || text.str().empty()) {
    throw std::invalid_argument(fmt::format("cannot read the scenario {}: {}", document.string(),
                                            file ? "it is empty" : std::generic_category().message(errno)));
  }
  try {
    return parse_scenario(text.str(), world_size);
  } catch (const scenario::DocumentError& error) {
    throw std::invalid_argument(error.in_file(document.string()));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", document.string(), error.what()));
  }
}

namespace {

std::string bits_of(const Tensor& tensor) {
  const auto bytes = tensor.values<std::byte>();
  const std::size_t width = size_of(tensor.dtype());
  std::string bits;
  bits.reserve(2 * bytes.size());
  for (std::size_t element = 0; element < bytes.size(); element += width) {
    for (std::size_t i = width; i-- > 0;)
      fmt::format_to(std::back_inserter(bits), "{:02x}", static_cast<unsigned>(bytes[element + i]));
  }
  return bits;
}

protocol::PlayedTensor played(const CapturedParameter& parameter, const Tensor& tensor) {
  return {.name = parameter.name,
          .shape = tensor.shape(),
          .dim = parameter.dim,
          .start = parameter.start,
          .dtype = tensor.dtype(),
          .bits = bits_of(tensor)};
}

protocol::PlayedIteration played(const Capture& capture) {
  protocol::PlayedIteration result{.iteration = capture.iteration, .loss = static_cast<float>(capture.loss)};
  for (const CapturedParameter& parameter : capture.parameters) {
    result.parameters.push_back(played(parameter, parameter.shard));
    if (parameter.second.defined()) result.seconds.push_back(played(parameter, parameter.second));
    if (parameter.gradient.defined()) result.gradients.push_back(played(parameter, parameter.gradient));
  }
  return result;
}

std::vector<protocol::PlayedHookCall> hook_calls(const Run& run) {
  std::vector<protocol::PlayedHookCall> calls;
  for (const Callback& callback : run.callbacks()) {
    const auto* const hook = std::get_if<GradientHookCall>(&callback.detail);
    if (hook == nullptr) continue;
    calls.push_back({.iteration = callback.iteration,
                     .during = callback.during,
                     .hook = std::string(to_string(hook->hook)),
                     .point = std::string(to_string(hook->point)),
                     .state = hook->state,
                     .label = callback.name,
                     .count = numel(callback.sizes.front().shape),
                     .dtype = callback.sizes.front().dtype,
                     .collective = hook->collective});
  }
  return calls;
}

// A run has one shared list of graphs for equal steps, so compare pointers.
void add_compiled_steps(protocol::PlayResult& result, const Run& run) {
  std::map<const std::vector<StepGraph>*, std::size_t> plans;
  for (const CompiledStep& step : run.compiled_steps()) {
    const auto [plan, is_new] = plans.try_emplace(step.graphs.get(), result.plans.size());
    if (is_new) result.plans.push_back(*step.graphs);
    result.compiled_steps.push_back({.iteration = step.iteration, .backward = step.backward, .plan = plan->second});
  }
}

// The facts from one mark to another, including both. They contain all work of the compute stream between the marks.
// Work that was issued before the first mark has ended by then. Work that is issued after the second mark begins later.
Trace slice(const Trace& trace, std::size_t from, std::size_t to) {
  const auto at = [&](std::size_t index) { return trace.facts.begin() + static_cast<std::ptrdiff_t>(index); };
  return {.rank = trace.rank, .facts = {at(from), at(to + 1)}};
}

// Counts only calls that this rank makes.
std::vector<protocol::PhaseTimes> phases(const Script& script, const Trace& trace) {
  std::unordered_map<std::string_view, std::size_t> marks;
  for (std::size_t i = 0; i < trace.facts.size(); ++i) {
    if (const auto* set = std::get_if<fact::Mark>(&trace.facts[i])) marks.emplace(set->text, i);
  }
  std::vector<protocol::PhaseTimes> all;
  int iteration = 0;
  for (const Script::Segment& segment : script.segments) {
    const auto once = [&](ActionKind kind) {
      const auto is_meant = [&](const Action& action) {
        return action.kind == kind && !action.fails_in && is_for(action, trace.rank);
      };
      return std::ranges::count_if(segment.body, is_meant) == 1;
    };
    for (int i = 0; i < segment.iterations; ++i, ++iteration) {
      protocol::PhaseTimes& times = all.emplace_back();
      if (!once(ActionKind::forward)) continue;
      const std::string start = mark(iteration, ActionKind::forward),
                        middle = mark(iteration, ActionKind::forward, true);
      const std::string end =
          mark(iteration, once(ActionKind::backward) ? ActionKind::backward : ActionKind::forward, true);
      if (marks.at(end) < marks.at(start)) continue;  // this backward belongs to the previous iteration
      const Trace part = slice(trace, marks.at(start), marks.at(end));
      times.forward = trace::between(part, start, middle);
      if (!once(ActionKind::backward)) continue;
      times.forward_backward = trace::between(part, start, end);
      times.exposed = trace::exposed(part, start, end);
    }
  }
  return all;
}

protocol::PlayTimes times(const Script& script, const Trace& trace) {
  return {.total = trace::total(trace), .phases = phases(script, trace), .trace = trace};
}

// A file with the final name is always complete, whenever this process ends.
void write_result(const protocol::PlayResult& result, const std::filesystem::path& file) {
  std::filesystem::create_directories(file.parent_path());
  const std::filesystem::path fresh = file.string() + ".new";
  std::ofstream out(fresh, std::ios::trunc);
  out << base::dump_line(result) << '\n';
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), fmt::format("write {}", fresh.string()));
  std::filesystem::rename(fresh, file);
}

// The failure text leaves out the rank, so that it is the same on all ranks that made the same mistake.
Run play_or_fail(Rank& rank, const Scenario& scenario) {
  try {
    return play(rank, scenario);
  } catch (const player::SubjectError& error) {
    FAIL(error.on_any_rank());
    throw;  // never: FAIL has thrown
  }
}

void check_races(const Run& run) {
  const auto races = run.races();
  for (const std::string& text : trace::describe(races)) FAIL_CHECK(text);
  if (races.empty()) SUCCEED("no race");
}

cases::BoundCase play_case(const protocol::WorldPlan& plan, const std::string& id,
                           const std::filesystem::path& document) {
  protocol::CaseInfo info;
  info.id = id;
  info.suite = "play";
  info.world_size = plan.size;
  info.params = {{"W", std::to_string(plan.size)}};
  info.file = document.string();
  const auto body = [id, scenario = read_scenario(document),
                     directory = protocol::WorldDirectory{plan.directory}](Rank& rank) {
    const Run run = play_or_fail(rank, scenario);
    const Script& script = run.scenario().script;
    protocol::PlayResult result{.rank = rank.index(), .times = times(script, run.trace()), .warnings = {}};
    for (const Warning& warning : run.warnings()) result.warnings.push_back(to_string(warning));
    for (const Warning& refusal : run.refusals()) result.refusals.push_back(to_string(refusal));
    result.hook_calls = hook_calls(run);
    add_compiled_steps(result, run);
    if (const auto& measured = run.recording().measured) result.measured = times(script, *measured);
    std::ranges::transform(run.captures(), std::back_inserter(result.iterations),
                           [](const Capture& capture) { return played(capture); });
    write_result(result, directory.play_result(id, rank.index()));
    check_races(run);
  };
  return {.info = std::move(info), .body = body, .seeds = {}};
}

}  // namespace

std::vector<cases::BoundCase> play_cases(const protocol::WorldPlan& plan) {
  const std::vector<std::string> ids = protocol::play_case_ids(plan);
  std::vector<cases::BoundCase> cases;
  for (std::size_t i = 0; i < ids.size(); ++i) cases.push_back(play_case(plan, ids[i], plan.scenarios[i]));
  return cases;
}

}  // namespace shardproof::runner
