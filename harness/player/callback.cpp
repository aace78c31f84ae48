#include "harness/player/callback.hpp"
#include "harness/base/enum_names.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <type_traits>
#include <variant>

namespace shardproof {

namespace {

template <CallbackKind kind, class Detail>
constexpr bool has_detail =
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(kind), decltype(Callback::detail)>, Detail>;

static_assert(has_detail<CallbackKind::pre_all_gather, PreAllGather> &&
              has_detail<CallbackKind::post_all_gather, PostAllGather> &&
              has_detail<CallbackKind::gradient_hook, GradientHookCall>);
static_assert(std::variant_size_v<decltype(Callback::detail)> ==
              static_cast<std::size_t>(CallbackKind::gradient_hook) + 1);

}  // namespace

std::string_view to_string(CallbackKind kind) {
  return base::name_of<CallbackKind::gradient_hook>(kind, {"pre_all_gather", "post_all_gather", "gradient_hook"});
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

}  // namespace shardproof
