#include "suites/exec_order/warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

namespace shardproof::exec_order {

std::vector<Warning> warnings(const Run& run, int iteration) {
  std::vector<Warning> all = run.warnings();
  std::erase_if(
      all, [iteration](const Warning& warning) { return warning.iteration != iteration || warning.call == "create"; });
  return all;
}

void check_warned(const Run& run, int iteration, int rank, const std::vector<std::string>& modules) {
  std::vector<std::string> names = modules;
  names.push_back(fmt::format("rank {}", rank));
  std::string said;
  for (const Warning& warning : warnings(run, iteration)) {
    const auto contains = [&](const std::string& name) { return warning.text.find(name) != std::string::npos; };
    if (std::ranges::all_of(names, contains)) {
      SUCCEED();
      return;
    }
    said += "\n" + to_string(warning);
  }
  FAIL_CHECK(fmt::format("no warning in iteration {} contains \"{}\"; warnings are: {}", iteration,
                         fmt::join(names, "\" and \""), said.empty() ? "none" : said));
}

void check_silent(const Run& run, int from, int to) {
  std::vector<std::string> said;
  for (int iteration = from; iteration < to; ++iteration) {
    for (const Warning& warning : warnings(run, iteration)) said.push_back(to_string(warning));
  }
  INFO("iterations " << from << " to " << to - 1 << " are in order");
  CHECK(said == std::vector<std::string>{});
}

}  // namespace shardproof::exec_order
