// What is fixed about each call that a script can make: its name, what it may say besides its name, and what its path is about. One table,
// for the reader and the writer of documents, for the validation of scripts, and for what changes scripts. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// What a call is about, which its `module` says.
enum class CallScope : std::uint8_t {
  all,         ///< everything: the call names no module
  module,      ///< one module, which runs by itself; the root by default
  groups,      ///< what engines have for the modules at or under the path. Each kind of engine says which it has
  parameters,  ///< the parameters at or under the path
};

/// What a call may say besides its name. In documents, these are its keys.
struct CallArguments {
  bool fails_in = false, paths = false, value = false, async = false, norm = false, extension = false, to = false;
  /// The name alone does not say enough.
  bool required() const { return value || norm || extension; }
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
inline constexpr ActionKind last_call = ActionKind::initialize;

}  // namespace shardproof::scenario
