// Refusals of scenarios: first the place, in the notation of the document's reader, then what was expected there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Throws DocumentError.
[[noreturn]] void fail(const std::string& place, const std::string& expected);

/// The place of a member of an object: `place.key`. A key that could be misread is in quotes.
std::string member_place(const std::string& place, std::string_view key);

/// The place of the module at `path`, with its path: `model.root.children[0].children[1] ("0.linear")`.
std::string place_of(const Model& model, const std::string& path);

/// The text of an error: `the model has no module "lair"`, and the closest or all paths.
std::string no_such_module(const Model& model, const std::string& path);

/// Fails if the model has no module at `path`.
void require_module(const Model& model, const std::string& path, const std::string& place);

/// Fails if none of these has this name. If the name is of something tied to one of these, the text says to which.
void require_parameter(const std::vector<ParameterShape>& all, const std::string& name, const std::string& place);

/// Fails, because imagined ranks cannot do `what`.
[[noreturn]] void refuse_imagined(const std::string& what);

}  // namespace shardproof::scenario
