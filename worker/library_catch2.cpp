// The libc symbols that Debian's Catch2 refers to by address. Debian compiles Catch2 for programs, so these symbols
// must be in the object that Catch2 is linked into. worker/CMakeLists.txt renames Catch2's references to the names
// here.
#include <cstdio>

extern "C" {

// Catch2 reads a key from it if the user asks Catch2 to wait. The worker has no such option.
std::FILE* shardproof_catch2_stdin = nullptr;

// Whether reference counts may change without locking: never.
char shardproof_catch2_single_threaded = 0;

[[gnu::constructor]] static void open_stdin() { shardproof_catch2_stdin = stdin; }
}
