#include "suites/exec_order/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace shardproof::exec_order {

std::vector<scenario::Warning> warnings(const scenario::Run& run, int iteration) {
  std::vector<scenario::Warning> all = run.warnings();
  std::erase_if(all, [iteration](const scenario::Warning& warning) { return warning.iteration != iteration || warning.call == "create"; });
  return all;
}

void check_warned(const scenario::Run& run, int iteration, int rank, const std::vector<std::string>& modules) {
  CAPTURE(iteration);
  const std::vector<scenario::Warning> all = warnings(run, iteration);
  INFO("a warning is expected that names rank " << rank << " and modules");
  REQUIRE_FALSE(all.empty());
  const bool some_names_all = std::ranges::any_of(all, [&](const scenario::Warning& warning) {
    const auto names = [&](const std::string& text) { return warning.text.find(text) != std::string::npos; };
    return names(fmt::format("rank {}", rank)) && std::ranges::all_of(modules, names);
  });
  INFO(to_string(all.front()));
  CHECK(some_names_all);
}

void check_silent(const scenario::Run& run, int from, int to) {
  std::vector<std::string> said;
  for (int iteration = from; iteration < to; ++iteration) {
    for (const scenario::Warning& warning : warnings(run, iteration)) said.push_back(to_string(warning));
  }
  INFO("iterations " << from << " to " << to - 1 << " are in order");
  CHECK(said == std::vector<std::string>{});
}

}  // namespace shardproof::exec_order
