#include "harness/runner/program_extension.hpp"

#include <fmt/format.h>

namespace shardproof {

namespace {

[[noreturn]] void refuse(std::string_view what) {
  throw runner::UsageError(
      fmt::format("this program {}: link it to shardproof::play, and call play_main if it has its own main", what));
}

}  // namespace

int ProgramExtension::answer(const runner::CommandLine& line) const {
  refuse(line.mode == runner::CommandLine::Mode::list_gpus ? "uses no GPUs" : "plays no scenarios");
}

std::vector<cases::BoundCase> ProgramExtension::play_cases(const protocol::WorldPlan& /*plan*/) const {
  refuse("plays no scenarios");
}

ProgramExtension::ServiceMaker ProgramExtension::services(const protocol::WorldPlan& plan) const {
  if (!plan.subject.empty() || !plan.subject_library.empty()) refuse(fmt::format("has no subject '{}'", plan.subject));
  if (!plan.fault.empty()) refuse(fmt::format("has no fault '{}'", plan.fault));
  return [] { return std::make_unique<world::CaseService>(); };
}

runner::Copier ProgramExtension::copier(const runner::CommandLine& /*line*/) const { refuse("has no subject"); }

}  // namespace shardproof
