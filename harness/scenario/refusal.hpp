// How what is wrong with a scenario as a whole is said: the place first, in words, then what was expected there.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Throws std::invalid_argument.
[[noreturn]] void fail(const std::string& place, const std::string& expected);

/// `model, module "PATH"`
std::string place_of(const std::string& path);

/// Fails where the model has no module at `path`.
void require_module(const Model& model, const std::string& path, const std::string& place);

/// Fails where none of these is named so; where something tied to one is, the text says which.
void require_parameter(const std::vector<ParameterShape>& all, const std::string& name, const std::string& place);

/// Fails, because imagined ranks cannot do `what`.
[[noreturn]] void refuse_imagined(const std::string& what);

}  // namespace shardproof::scenario
