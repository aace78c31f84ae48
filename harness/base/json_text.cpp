#include "harness/base/json_text.hpp"

#include <nlohmann/json.hpp>

namespace shardproof::base {

namespace {

constexpr auto replace_invalid = nlohmann::ordered_json::error_handler_t::replace;

}  // namespace

std::string dump_line(const nlohmann::ordered_json& json) { return json.dump(-1, ' ', false, replace_invalid); }

std::string dump_document(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, replace_invalid);
}

}  // namespace shardproof::base
