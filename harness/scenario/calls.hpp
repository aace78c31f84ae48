// The table of the calls that a script can make: name, arguments and scope of each. The reader and the writer of
// documents use it, and the validation of scripts. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// The scope of a call's `module`.
enum class CallScope : std::uint8_t {
  all,  ///< everything: the call names no module
  module,  ///< one module, which runs by itself; the root by default
  /// The groups of an engine for the modules at or under the path. Each kind of engine defines its groups.
  groups,
  parameters,  ///< the parameters at or under the path
};

/// The arguments of a call, which are its keys in documents.
struct CallArguments {
  bool fails_in = false, paths = false, method = false, value = false, async = false, norm = false, extension = false,
       to = false, hook = false;
  /// The name alone does not say enough.
  bool required() const { return value || norm || extension || hook; }
};

struct CallInfo {
  ActionKind kind;
  std::string_view name;
  CallScope scope = CallScope::all;
  CallArguments arguments = {};

  bool has_module() const { return scope != CallScope::all; }
};

/// All calls, in the order of ActionKind.
std::span<const CallInfo> calls();
const CallInfo& call_of(ActionKind kind);

/// The last call, for readers of enumerators.
inline constexpr ActionKind last_call = ActionKind::register_hook;

}  // namespace shardproof::scenario
