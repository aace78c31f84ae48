// Makes a rank wait for a debugger before its first case.
#pragma once

namespace shardproof::runner {

/// Call it once in a process. If the launcher asked this rank to wait (environment::debug), it returns after a debugger
/// attaches. The debugger then stops here, by SIGTRAP.
void wait_for_debugger_if_asked();

}  // namespace shardproof::runner
