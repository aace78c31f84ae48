#include "harness/scenario/callback.hpp"

#include <algorithm>
#include <set>

namespace shardproof::scenario {

std::string_view to_string(CallbackKind kind) {
  switch (kind) {
    case CallbackKind::pre_all_gather: return "pre_all_gather";
    case CallbackKind::post_all_gather: return "post_all_gather";
  }
  return {};
}

CallbackKind Callback::kind() const {
  return std::visit([](const auto& of_kind) { return of_kind.kind; }, detail);
}

bool CallbackFilter::fits(const Callback& callback) const {
  return kind.value_or(callback.kind()) == callback.kind() && (!name || *name == callback.name) &&
         iteration.value_or(callback.iteration) == callback.iteration && (!during || *during == callback.during);
}

std::vector<const Callback*> select(std::span<const Callback> callbacks, const CallbackFilter& filter) {
  std::vector<const Callback*> selected;
  for (const Callback& callback : callbacks) {
    if (filter.fits(callback)) selected.push_back(&callback);
  }
  return selected;
}

std::size_t count(std::span<const Callback> callbacks, const CallbackFilter& filter) {
  const auto fits = [&](const Callback& callback) { return filter.fits(callback); };
  return static_cast<std::size_t>(std::ranges::count_if(callbacks, fits));
}

std::vector<std::string> names(std::span<const Callback> callbacks, const CallbackFilter& filter) {
  std::set<std::string> sorted;
  for (const Callback* callback : select(callbacks, filter)) sorted.insert(callback->name);
  return {sorted.begin(), sorted.end()};
}

}  // namespace shardproof::scenario
