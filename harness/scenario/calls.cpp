#include "harness/scenario/calls.hpp"

#include <array>
#include <cstddef>

namespace shardproof::scenario {

namespace {

using enum ActionKind;

constexpr CallArguments a_value{.value = true};

constexpr std::array table{
    CallInfo{forward, "forward", CallScope::module, {.fails_in = true, .paths = true, .method = true}},
    CallInfo{backward, "backward"},
    CallInfo{step, "step"},
    CallInfo{zero_grad, "zero_grad", CallScope::all, {.to = true}},
    CallInfo{post_optim_event, "post_optim_event"},
    CallInfo{capture, "capture"},
    CallInfo{evaluate, "evaluate", CallScope::module, {.paths = true, .method = true}},
    CallInfo{clip_grad_norm, "clip_grad_norm", CallScope::all, {.norm = true}},
    CallInfo{unshard, "unshard", CallScope::groups, {.async = true}},
    CallInfo{wait_for_unshard, "wait_for_unshard", CallScope::groups},
    CallInfo{reshard, "reshard", CallScope::groups},
    CallInfo{set_requires_gradient_sync, "set_requires_gradient_sync", CallScope::groups, a_value},
    CallInfo{set_requires_all_reduce, "set_requires_all_reduce", CallScope::groups, a_value},
    CallInfo{set_reshard_after_backward, "set_reshard_after_backward", CallScope::groups, a_value},
    CallInfo{set_unshard_in_backward, "set_unshard_in_backward", CallScope::groups, a_value},
    CallInfo{set_is_last_backward, "set_is_last_backward", CallScope::all, a_value},
    CallInfo{extend, "extend", CallScope::all, {.extension = true}},
    CallInfo{materialize, "materialize", CallScope::parameters},
    CallInfo{initialize, "initialize", CallScope::parameters},
    CallInfo{register_hook, "register_hook", CallScope::groups, {.hook = true}},
};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].kind != static_cast<ActionKind>(i)) return false;
  }
  return table.back().kind == last_call;
}
static_assert(is_in_order());

}  // namespace

std::span<const CallInfo> calls() { return table; }

const CallInfo& call_of(ActionKind kind) { return table.at(static_cast<std::size_t>(kind)); }

}  // namespace shardproof::scenario

std::string_view shardproof::to_string(ActionKind kind) { return scenario::call_of(kind).name; }
