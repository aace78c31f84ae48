#include "harness/scenario/validate_extension.hpp"

#include <fmt/format.h>

#include <vector>

#include "harness/scenario/refusal.hpp"

namespace shardproof::scenario {

namespace {

std::vector<ParameterShape> extended(const Model& model, const Extension& extension, const std::string& place) {
  std::vector<ParameterShape> all = parameters(model);
  if (!extension.parameter.empty()) {
    if (extension.tensor != TensorKind::plain)
      fail(place, fmt::format("is for \"{}\" and also for all that are {}: keep one of the two", extension.parameter,
                              to_string(extension.tensor)));
    require_parameter(all, extension.parameter, place);
    std::erase_if(all, [&](const ParameterShape& parameter) { return parameter.name != extension.parameter; });
  } else {
    if (extension.tensor == TensorKind::plain) fail(place, "names no parameter and no kind other than plain");
    std::erase_if(all, [&](const ParameterShape& parameter) { return parameter.tensor != extension.tensor; });
    if (all.empty()) fail(place, fmt::format("the model has no parameter that is {}", to_string(extension.tensor)));
  }
  return all;
}

}  // namespace

void validate_extension(const Scenario& scenario, const Extension& extension, const std::string& place) {
  for (const ParameterShape& parameter : extended(scenario.model, extension, place)) {
    const bool is_of_one = extension.kind == ExtensionKind::bf16 || extension.kind == ExtensionKind::int8;
    if (is_of_one && parameter.tensor == TensorKind::two_tensor)
      fail(place,
           fmt::format("{} is made of one tensor, and \"{}\" is a pair", to_string(extension.kind), parameter.name));
    if (const std::string why = scenario.plan.engine.get()->objection_to_extension(parameter); !why.empty())
      fail(place, why);
  }
}

}  // namespace shardproof::scenario
