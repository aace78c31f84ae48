#include "harness/base/json_text.hpp"

#include <nlohmann/json.hpp>

namespace shardproof {

namespace {

constexpr auto mend = nlohmann::ordered_json::error_handler_t::replace;

}  // namespace

std::string dump_line(const nlohmann::ordered_json& json) { return json.dump(-1, ' ', false, mend); }

std::string dump_document(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, mend);
}

}  // namespace shardproof
