// Debian's Catch2 is compiled for programs: what it takes of libc by address has to be in the object that it is linked into. There it finds
// these (worker/CMakeLists.txt renames what it asks for).
#include <cstdio>

extern "C" {

// Asked by Catch2 for a key to be pressed, which nobody asks it to wait for.
std::FILE* shardproof_catch2_stdin = nullptr;

// Whether counts of references may be changed without locking: never.
char shardproof_catch2_single_threaded = 0;

[[gnu::constructor]] static void open_stdin() { shardproof_catch2_stdin = stdin; }
}
