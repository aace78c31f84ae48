// ProgramExtension is what a program of ranked cases can do besides running its cases: it knows subjects, and answers a
// launcher's questions about scenarios and devices. This base class extends nothing. shardproof::play has an extension
// (harness/runner/play/play_main.hpp).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/runner/command_line.hpp"
#include "harness/runner/warm.hpp"
#include "harness/world/case_service.hpp"

namespace shardproof {

class ProgramExtension {
 public:
  using ServiceMaker = std::function<std::unique_ptr<world::CaseService>()>;

  virtual ~ProgramExtension() = default;

  // All throw UsageError for something that the program does not have.

  /// Adds the subjects, the faults, and the engine kinds that it knows. `library`: the shared object that has the
  /// subject. Empty: the program's own subjects.
  virtual void add_to(protocol::Listing& /*listing*/, const std::filesystem::path& /*library*/) const {}
  /// Mistakes in what the program declares; each begins with `file:line: `.
  virtual std::vector<std::string> problems(std::span<const cases::BoundCase> /*cases*/) const { return {}; }
  /// Prints the answer about scenarios or GPUs, and returns the exit code of the process.
  virtual int answer(const runner::CommandLine& line) const;
  /// The cases of a plan with scenarios.
  virtual std::vector<cases::BoundCase> play_cases(const protocol::WorldPlan& plan) const;
  /// Returns a function that makes the service of one rank.
  virtual ServiceMaker services(const protocol::WorldPlan& plan) const;
  /// How a process is prepared for copies, and copied, where the command line names a subject.
  virtual runner::Copier copier(const runner::CommandLine& line) const;
};

}  // namespace shardproof
