#include "harness/runner/play/play_main.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "harness/base/closest.hpp"
#include "harness/cases/ranked_test_case.hpp"
#include "harness/player/play_service.hpp"
#include "harness/runner/play/play_case.hpp"
#include "harness/runner/play/scenario_answers.hpp"
#include "harness/runner/play/subject_choice.hpp"
#include "harness/runner/play/subject_preparation.hpp"
#include "harness/runner/rank_main.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/plan/engine_section.hpp"

namespace shardproof {

using runner::CommandLine;

namespace {

protocol::Combinable combinable(std::string_view kind) {
  protocol::Combinable info{.engine = std::string(kind)};
  const std::vector<scenario::Trait> traits = scenario::possible_traits(kind, scenario::full_palette(kind));
  for (const scenario::Trait one : traits) {
    info.features.emplace_back(one);
    for (const scenario::Trait other : traits) {
      if (one < other && scenario::exclude_each_other(kind, one, other)) info.excluded.emplace_back(one, other);
    }
  }
  return info;
}

std::vector<cases::KnownKind> known_kinds() {
  std::vector<cases::KnownKind> kinds;
  for (const EngineKind& kind : engine_kinds()) kinds.push_back({.name = kind.name, .features = kind.feature_names()});
  return kinds;
}

const Fault& fault_named(const std::vector<Fault>& faults, const std::string& name) {
  const auto fault =
      std::ranges::find(faults, name, [](const Fault& each) -> const std::string& { return each.info.name; });
  if (fault != faults.end()) return *fault;
  std::set<std::string> names;
  for (const Fault& known : faults) names.insert(known.info.name);
  throw runner::UsageError(fmt::format("there is no fault \"{}\"; {}", name, base::closest_or_all(names, name)));
}

class PlayExtension final : public ProgramExtension {
 public:
  explicit PlayExtension(const PlayProgram& program) : program_(program) {}

  void add_to(protocol::Listing& listing, const std::filesystem::path& library) const override {
    const std::vector<SubjectMaker> subjects = runner::subjects_of(program_.subjects, library);
    for (const EngineKind& kind : engine_kinds()) listing.engine_kinds.emplace_back(kind.name);
    for (const std::string_view kind : scenario::drawn_kinds()) {
      listing.drawn_kinds.emplace_back(kind);
      listing.combinable.push_back(combinable(kind));
    }
    for (const auto& make : subjects) {
      const auto subject = make();
      protocol::SubjectInfo& info = listing.subjects.emplace_back();
      info.name = subject->name();
      info.version = subject->version();
      info.warm = subject->wants_preparation();
      const Claims claims = subject->claims();
      for (const Claims::Kind& kind : claims.kinds()) {
        protocol::ClaimInfo& claim = info.claims.emplace_back(protocol::ClaimInfo{.engine = kind.name, .features = {}});
        for (const Feature feature : kind.features) claim.features.emplace_back(feature.name());
      }
    }
    for (const Fault& fault : program_.faults) listing.faults.push_back(fault.info);
  }

  std::vector<std::string> problems(std::span<const cases::BoundCase> cases) const override {
    std::vector<std::string> all = problems_of_engine_kinds();
    std::ranges::move(cases::problems_of_needs(cases, declared_suite_engines(), known_kinds()),
                      std::back_inserter(all));
    return all;
  }

  int answer(const CommandLine& line) const override {
    switch (line.mode) {
      case CommandLine::Mode::list_gpus: return runner::answer_with_gpus(line.backend);
      case CommandLine::Mode::make_scenario: return runner::answer_with_scenarios(line.asked);
      case CommandLine::Mode::shrink_scenario:
        return runner::answer_with_smaller(line.scenario, line.asked.ranks.front());
      default:
        return runner::answer_about(line.scenario,
                                    line.asked.ranks.empty() ? std::nullopt : std::optional(line.asked.ranks.front()));
    }
  }

  std::vector<cases::BoundCase> play_cases(const protocol::WorldPlan& plan) const override {
    return runner::play_cases(plan);
  }

  ServiceMaker services(const protocol::WorldPlan& plan) const override {
    const std::vector<SubjectMaker> subjects = runner::subjects_of(program_.subjects, plan.subject_library);
    return [this, plan, subjects] { return make_service(plan, subjects); };
  }

  runner::Copier copier(const CommandLine& line) const override {
    const std::shared_ptr<Subject> subject = runner::subject_named(
        runner::subjects_of(program_.subjects, line.subject_library), line.subject, line.subject_library);
    return {.prepare = [subject] { return runner::prepare(*subject); }, .fork = [subject] { return subject->fork(); }};
  }

 private:
  // With the subject that the plan asks for, and the plan's fault applied to it. There is no subject if the plan names
  // neither a subject nor a fault.
  std::unique_ptr<player::PlayService> make_service(const protocol::WorldPlan& plan,
                                                    const std::vector<SubjectMaker>& subjects) const {
    if (plan.subject.empty() && plan.fault.empty()) return std::make_unique<player::PlayService>(nullptr);
    std::unique_ptr<Subject> subject = runner::subject_named(subjects, plan.subject, plan.subject_library);
    const bool keeps_threads = subject->keeps_threads();
    if (!plan.fault.empty()) subject = fault_named(program_.faults, plan.fault).apply(std::move(subject));
    return std::make_unique<player::PlayService>(std::move(subject), keeps_threads);
  }

  const PlayProgram& program_;
};

}  // namespace

int play_main(int argc, char** argv, const PlayProgram& program) {
  return rank_main(
      argc, argv,
      {.suite_version = program.suite_version, .profiles = program.profiles, .clause_tables = program.clause_tables},
      PlayExtension(program));
}

}  // namespace shardproof
