// A rank that somebody wants to look at in a debugger waits for it before its first case.
#pragma once

namespace shardproof {

/// Called once in a process. Where the launcher asked this rank for it (environment::debug): returns when a debugger is attached, which is then
/// stopped here, by SIGTRAP.
void wait_for_debugger_if_asked();

}  // namespace shardproof
