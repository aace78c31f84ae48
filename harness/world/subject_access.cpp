// The part of this room that knows the subject: what it claims, and playing scenarios on it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "harness/protocol/json_text.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/trace_json.hpp"
#include "harness/scenario/player.hpp"
#include "harness/subject/subject.hpp"
#include "harness/world/world.hpp"

namespace shardproof {

std::string World::subject_identity() const {
  const Subject* subject = membership_.subject.get();
  return subject != nullptr ? fmt::format("{} {}", subject->name(), subject->version()) : "none";
}

std::string World::missing(const CaseInfo& info) const {
  if (info.needs.empty()) return {};
  const Subject* subject = membership_.subject.get();
  if (subject == nullptr) return fmt::format("the program has no subject that could claim {}", fmt::join(info.needs, ", "));
  std::vector<std::string> missing = info.needs;
  for (const Feature feature : subject->capabilities()) std::erase(missing, to_string(feature));
  return missing.empty() ? std::string() : fmt::format("subject {} does not claim {}", subject->name(), fmt::join(missing, ", "));
}

void World::write_trace(const Trace& trace) {
  std::string name = notes_.info->id;
  std::ranges::replace(name, '/', '.');
  // Later plays of one case are documents of their own: their streams and clocks begin anew.
  if (notes_.plays > 1) name += fmt::format(".play-{}", notes_.plays);
  const auto directory = WorldDirectory{plan_.directory}.traces();
  std::filesystem::create_directories(directory);
  const auto file = directory / fmt::format("{}.rank-{}.json", name, rank_);
  std::ofstream out(file, std::ios::trunc);
  out << dump_line(trace) << '\n';
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), fmt::format("trace: write {}", file.string()));
}

scenario::Run Rank::play(const scenario::Scenario& scenario) {
  Subject* subject = world_->membership_.subject.get();
  if (subject == nullptr) throw std::logic_error("Rank::play: this program has no subject to play the scenario on");
  scenario::Run run = scenario::play(scenario, *subject, world(), index());
  CaseNotes& notes = world_->notes();
  notes.left_alive += run.left_alive();
  ++notes.plays;
  if (world_->plan().trace) world_->write_trace(run.trace());
  return run;
}

}  // namespace shardproof
