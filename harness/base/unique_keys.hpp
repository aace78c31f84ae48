// Refuses an object that has a key twice. Otherwise the parser would silently keep one of the two values.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shardproof::base {

/// A callback for parse_json, for one document. It throws std::invalid_argument, whose text begins with `prefix`.
class UniqueKeys {
 public:
  explicit UniqueKeys(std::string prefix = "") : prefix_(std::move(prefix)) {}

  bool operator()(int, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json& parsed) {
    using enum nlohmann::ordered_json::parse_event_t;
    if (event == object_start) open_.emplace_back();
    if (event == object_end) open_.pop_back();
    if (event == key && !open_.back().insert(parsed.get<std::string>()).second)
      throw std::invalid_argument(
          fmt::format("{}the key {} is twice in one object: remove one of the two", prefix_, parsed.dump()));
    return true;
  }

 private:
  std::string prefix_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace shardproof::base
