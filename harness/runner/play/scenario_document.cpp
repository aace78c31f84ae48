#include "harness/runner/play/scenario_document.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/scenario/document_error.hpp"
#include "harness/scenario/scenario_json.hpp"

namespace shardproof::runner {

namespace {

std::string read_document(const std::filesystem::path& file) {
  // Every rank reads the document again. The launcher's check whether it can be played reads it, too.
  std::error_code unknown;  // if the path cannot be checked, opening it reports the reason
  if (std::filesystem::exists(file, unknown) && !std::filesystem::is_regular_file(file, unknown))
    throw std::invalid_argument(fmt::format(
        "cannot read the scenario {}: ranks read it several times, so it must be a regular file", file.string()));
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || text.str().empty()) {
    throw std::invalid_argument(fmt::format("cannot read the scenario {}: {}", file.string(),
                                            in ? "it is empty" : std::generic_category().message(errno)));
  }
  return std::move(text).str();
}

template <class Parse>
Scenario parsed(const std::filesystem::path& file, Parse&& parse) {
  try {
    return parse();
  } catch (const scenario::DocumentError& error) {
    throw std::invalid_argument(error.in_file(file.string()));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", file.string(), error.what()));
  }
}

}  // namespace

ScenarioDocument::ScenarioDocument(std::filesystem::path file) : file_(std::move(file)), text_(read_document(file_)) {}

Scenario ScenarioDocument::scenario(std::optional<int> world_size) const {
  return parsed(file_, [&] { return parse_scenario(text_, world_size); });
}

Scenario ScenarioDocument::playable_scenario(std::optional<int> ranks) const {
  return parsed(file_, [&] { return parse_playable_scenario(text_, ranks); });
}

std::size_t ScenarioDocument::line_of(const std::optional<ScriptPlace>& call) const {
  return scenario::position_of_call(text_, call).line;
}

Scenario read_scenario(const std::filesystem::path& document, std::optional<int> world_size) {
  return ScenarioDocument(document).scenario(world_size);
}

}  // namespace shardproof::runner
