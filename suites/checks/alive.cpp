#include "suites/checks/alive.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "harness/trace/memory.hpp"
#include "suites/checks/said.hpp"

namespace shardproof::suites {

namespace {

// The labels of the buffers, in the order of their allocation.
std::vector<std::string> alive(const Trace& trace, MemoryClass memory, std::string_view mark) {
  std::map<std::uint64_t, std::string> labels;
  for (const Fact& fact : trace.facts) {
    if (const auto* const made = std::get_if<fact::Allocated>(&fact); made != nullptr && made->memory == memory)
      labels[made->buffer] = fmt::format("\"{}\"", made->label);
    if (const auto* const gone = std::get_if<fact::Released>(&fact)) labels.erase(gone->buffer);
    if (const auto* const here = std::get_if<fact::Mark>(&fact); here != nullptr && here->text == mark) break;
  }
  std::vector<std::string> all;
  for (const auto& [buffer, label] : labels) all.push_back(label);
  return all;
}

}  // namespace

void check_alive(const Trace& trace, MemoryClass memory, std::string_view mark, Alive how, std::uint64_t expected) {
  const std::uint64_t found = trace::at(trace, memory, mark).buffers;
  if (how == Alive::exactly ? found == expected : found <= expected) return check_said(true, "");
  INFO("alive: " << fmt::format("{}", fmt::join(alive(trace, memory, mark), ", ")));
  check_said(false, fmt::format("at \"{}\", {} buffers of the class {} are alive, but {}{} may be", mark, found,
                                to_string(memory), how == Alive::at_most ? "at most " : "", expected));
}

std::uint64_t unsharded_parameters(const Scenario& scenario) {
  const auto all = parameters(scenario.model);
  return static_cast<std::uint64_t>(std::ranges::count_if(
      all, [&](const auto& parameter) { return !scenario.plan.engine.get()->reduces(parameter.name); }));
}

}  // namespace shardproof::suites
