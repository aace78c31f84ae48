#include "harness/runner/play/play_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/internal/catch_assertion_handler.hpp>
#include <catch2/internal/catch_source_line_info.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "harness/base/json_text.hpp"
#include "harness/player/play.hpp"
#include "harness/player/player.hpp"
#include "harness/player/run.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/runner/play/scenario_document.hpp"
#include "harness/trace/timeline.hpp"
#include "harness/world/rank.hpp"

namespace shardproof::runner {

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

protocol::PlayedClip played(const ClippedGradients& clipped) {
  protocol::PlayedClip result{
      .iteration = clipped.iteration, .max_norm = clipped.max_norm, .norm_type = clipped.norm_type, .parts = {}};
  for (const ClippedGradients::Part& part : clipped.parts) result.parts.push_back({part.name, part.start, part.power});
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

// The marks of one call.
struct CallMarks {
  ActionKind kind;
  std::string start, end;
  std::optional<int> micro_batch;  ///< Empty: a backward of several micro-batches.
};

// The micro-batch that a backward takes: that of all forwards since the last backward.
std::optional<int> micro_batch_of_backward(std::span<const CallMarks> calls) {
  std::optional<int> found;
  for (std::size_t i = calls.size(); i-- > 0 && calls[i].kind != ActionKind::backward;) {
    if (calls[i].kind != ActionKind::forward) continue;
    if (found && found != calls[i].micro_batch) return std::nullopt;
    found = calls[i].micro_batch;
  }
  return found;
}

// The calls of one iteration that this rank makes. A forward that fails as planned is none of them.
std::vector<CallMarks> calls_of(const Script::Segment& segment, int iteration, int rank) {
  std::vector<CallMarks> calls;
  std::map<ActionKind, int> occurrences;
  for (const Action& action : segment.body) {
    if (!is_for(action, rank) || action.fails_in) continue;
    const int occurrence = ++occurrences[action.kind];
    const bool is_backward = action.kind == ActionKind::backward;
    calls.push_back({.kind = action.kind,
                     .start = mark(iteration, action.kind, false, occurrence),
                     .end = mark(iteration, action.kind, true, occurrence),
                     .micro_batch = is_backward ? micro_batch_of_backward(calls) : action.micro_batch});
  }
  return calls;
}

// The phases of these calls. Only one forward, and at most one backward after it, have phases.
protocol::PhaseTimes phases(std::span<const CallMarks> calls, const Trace& trace,
                            const std::unordered_map<std::string_view, std::size_t>& marks) {
  const auto only = [&](ActionKind kind) -> const CallMarks* {
    const auto is_it = [kind](const CallMarks& call) { return call.kind == kind; };
    return std::ranges::count_if(calls, is_it) == 1 ? &*std::ranges::find_if(calls, is_it) : nullptr;
  };
  const CallMarks *const forward = only(ActionKind::forward), *const backward = only(ActionKind::backward);
  if (forward == nullptr) return {};
  const std::string& end = (backward != nullptr ? backward : forward)->end;
  if (marks.at(end) < marks.at(forward->start)) return {};  // this backward belongs to the previous iteration
  const Trace part = slice(trace, marks.at(forward->start), marks.at(end));
  protocol::PhaseTimes times{.forward = trace::between(part, forward->start, forward->end)};
  if (backward == nullptr) return times;
  times.forward_backward = trace::between(part, forward->start, end);
  times.exposed = trace::exposed(part, forward->start, end);
  return times;
}

std::vector<protocol::PhaseTimes> phases(const Script& script, const Trace& trace) {
  std::unordered_map<std::string_view, std::size_t> marks;
  for (std::size_t i = 0; i < trace.facts.size(); ++i) {
    if (const auto* set = std::get_if<fact::Mark>(&trace.facts[i])) marks.emplace(set->text, i);
  }
  std::vector<protocol::PhaseTimes> all;
  int iteration = 0;
  for (const Script::Segment& segment : script.segments) {
    const int micro_batches =
        segment.body.empty() ? 1 : 1 + std::ranges::max(segment.body, {}, &Action::micro_batch).micro_batch;
    for (int i = 0; i < segment.iterations; ++i, ++iteration) {
      const std::vector<CallMarks> calls = calls_of(segment, iteration, trace.rank);
      protocol::PhaseTimes& times = all.emplace_back(phases(calls, trace, marks));
      for (int number = 0; micro_batches > 1 && number < micro_batches; ++number) {
        std::vector<CallMarks> own;
        std::ranges::copy_if(calls, std::back_inserter(own),
                             [number](const CallMarks& call) { return call.micro_batch == number; });
        times.micro_batches.push_back(phases(own, trace, marks));
      }
    }
  }
  return all;
}

// The numbers of micro-batches by call of this rank. Empty for a script without micro-batches.
std::vector<int> micro_batches(const Script& script, int rank) {
  std::vector<int> numbers;
  for (const Script::Segment& segment : script.segments) {
    for (int iteration = 0; iteration < segment.iterations; ++iteration) {
      for (const Action& action : segment.body) {
        if (is_for(action, rank)) numbers.push_back(action.micro_batch);
      }
    }
  }
  return std::ranges::count(numbers, 0) == std::ssize(numbers) ? std::vector<int>() : numbers;
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

// A document, as failures cite it: by its own path and line, not by those of this file.
class CitedDocument {
 public:
  explicit CitedDocument(ScenarioDocument document)
      : document_(std::move(document)), file_(document_.file().string()) {}

  Scenario scenario() const { return document_.scenario(); }

  /// Adds a failure of the running case at a call of the script, or at the plan without one.
  void fail(const std::string& text, const std::optional<ScriptPlace>& call, bool ends_case) const {
    report("FAIL", document_.line_of(call), text,
           ends_case ? Catch::ResultDisposition::Normal : Catch::ResultDisposition::ContinueOnFailure);
  }

 private:
  void report(const char* macro, std::size_t line, const std::string& text,
              Catch::ResultDisposition::Flags disposition) const {
    Catch::AssertionHandler handler(Catch::StringRef(macro), Catch::SourceLineInfo(file_.c_str(), line), {},
                                    disposition);
    handler.handleMessage(Catch::ResultWas::ExplicitFailure, std::string(text));
    handler.complete();
  }

  ScenarioDocument document_;
  std::string file_;
};

// The failure text leaves out the rank, so that it is the same on all ranks that made the same mistake.
Run play_or_fail(Rank& rank, const Scenario& scenario, const CitedDocument& document) {
  try {
    return play(rank, scenario);
  } catch (const player::SubjectError& error) {
    document.fail(error.on_any_rank(), error.place(), true);
    throw;  // never: the failure has thrown
  }
}

void check_races(const Run& run, const CitedDocument& document) {
  const auto races = run.races();
  for (const std::string& text : trace::describe(races)) document.fail(text, std::nullopt, false);
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
  CitedDocument cited{ScenarioDocument(document)};
  const auto body = [id, scenario = cited.scenario(), cited,
                     directory = protocol::WorldDirectory{plan.directory}](Rank& rank) {
    const Run run = play_or_fail(rank, scenario, cited);
    const Script& script = run.scenario().script;
    protocol::PlayResult result{.rank = rank.index(), .times = times(script, run.trace()), .warnings = {}};
    for (const Warning& warning : run.warnings()) result.warnings.push_back(to_string(warning));
    for (const Warning& refusal : run.refusals()) result.refusals.push_back(to_string(refusal));
    result.hook_calls = hook_calls(run);
    result.micro_batches = micro_batches(script, rank.index());
    for (const ClippedGradients& clipped : run.clipped()) result.clips.push_back(played(clipped));
    add_compiled_steps(result, run);
    if (const auto& measured = run.recording().measured) result.measured = times(script, *measured);
    std::ranges::transform(run.captures(), std::back_inserter(result.iterations),
                           [](const Capture& capture) { return played(capture); });
    write_result(result, directory.play_result(id, rank.index()));
    check_races(run, cited);
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
