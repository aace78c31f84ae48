#include "harness/world/rank.hpp"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/world/event_stream.hpp"
#include "harness/world/world.hpp"

namespace shardproof {

namespace {

template <class T>
T number(std::string_view name, const std::string& text, std::string_view kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument(fmt::format("parameter '{}' is '{}': that is not a valid {}", name, text, kind));
  }
  return value;
}

}  // namespace

ClauseScope::ClauseScope(world::World& world, std::vector<std::string> clauses) : world_(&world) {
  world_->notes().scopes.push_back(std::move(clauses));
}

ClauseScope::~ClauseScope() { world_->notes().scopes.pop_back(); }

const std::vector<std::string>& Rank::clauses() const { return world_->notes().info->clauses; }

ClauseScope Rank::under(std::vector<std::string> clauses) const { return {*world_, std::move(clauses)}; }

int Rank::index() const { return world_->rank(); }

Group& Rank::world() { return *world_->group(); }

const Placement& Rank::placement() const { return world_->placement(); }

const std::string* Rank::find_param(std::string_view name) const {
  const protocol::CaseInfo& info = *world_->notes().info;
  const auto found = info.params.find(std::string(name));
  return found == info.params.end() ? nullptr : &found->second;
}

const std::string& Rank::param(std::string_view name) const {
  const std::string* const value = find_param(name);
  if (value == nullptr)
    throw std::out_of_range(fmt::format("case {} has no parameter '{}'", world_->notes().info->id, name));
  return *value;
}

const std::string& Rank::engine() const {
  const protocol::CaseInfo& info = *world_->notes().info;
  if (info.engine.empty())
    throw std::logic_error(fmt::format(
        "case {} names no engine kind: give the suite one by SUITE_ENGINE, or the case by on_engines(…)", info.id));
  return info.engine;
}

template <>
std::string Rank::param<std::string>(std::string_view name) const {
  return param(name);
}

template <>
bool Rank::param<bool>(std::string_view name) const {
  const std::string& text = param(name);
  if (text == "true") return true;
  if (text == "false") return false;
  throw std::invalid_argument(fmt::format("parameter '{}' is '{}': that is neither true nor false", name, text));
}

template <>
int Rank::param<int>(std::string_view name) const {
  return number<int>(name, param(name), "integer");
}

template <>
double Rank::param<double>(std::string_view name) const {
  return number<double>(name, param(name), "number");
}

void Rank::measure(std::string_view name, double value, std::string_view unit) {
  world_->stream().write(
      protocol::event::Measured{.name = std::string(name), .value = value, .unit = std::string(unit)});
}

void Rank::combines(std::vector<std::string> features) { world_->notes().combined = std::move(features); }

std::string Rank::lacking(std::span<const Feature> needs) const {
  protocol::CaseInfo needing = *world_->notes().info;
  for (const Feature feature : needs) needing.needs.emplace_back(feature.name());
  return world_->missing(needing);
}

void Rank::skip(std::string_view reason) {
  world_->notes().skip = std::string(reason);
  world_->abort(control::AbortReason::skipped, reason);
  throw world::CaseSkipped{};
}

std::uint64_t Rank::seed() const {
  world_->notes().seed_used = true;
  return world_->notes().seed;
}

}  // namespace shardproof
