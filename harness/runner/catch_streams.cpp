// Makes some functions of Catch2 safe for threads.
//
// Catch2 builds the text of each message and each failed expression in a stream from a pool. All threads share this
// pool without a guard. Catch2 numbers messages with a counter that is not atomic. Both happen inside Catch2's macros,
// in the program's own code, where the harness has no other place to act.
//
// So the linker redirects these few functions to this file (`--wrap`, see CMakeLists.txt). Here one thread at a time
// calls Catch2's function. Only taking and returning a stream are guarded: using a stream needs no guard.
#include <catch2/internal/catch_message_info.hpp>
#include <catch2/internal/catch_result_type.hpp>
#include <catch2/internal/catch_source_line_info.hpp>
#include <catch2/internal/catch_stringref.hpp>
#include <mutex>

extern "C" {
void take_stream_unguarded(void* stream) asm("__real__ZN5Catch20ReusableStringStreamC1Ev");
void give_stream_back_unguarded(void* stream) asm("__real__ZN5Catch20ReusableStringStreamD1Ev");
void number_message_unguarded(
    void* message, Catch::StringRef macro, const Catch::SourceLineInfo& place,
    Catch::ResultWas::OfType
        type) asm("__real__ZN5Catch11MessageInfoC1ENS_9StringRefERKNS_14SourceLineInfoENS_9ResultWas6OfTypeE");

void take_stream(void* stream) asm("__wrap__ZN5Catch20ReusableStringStreamC1Ev");
void give_stream_back(void* stream) asm("__wrap__ZN5Catch20ReusableStringStreamD1Ev");
void number_message(
    void* message, Catch::StringRef macro, const Catch::SourceLineInfo& place,
    Catch::ResultWas::OfType
        type) asm("__wrap__ZN5Catch11MessageInfoC1ENS_9StringRefERKNS_14SourceLineInfoENS_9ResultWas6OfTypeE");
}

namespace {

// A static inside a function has the same scope and lifetime as the pool that it guards: the whole process.
std::mutex& guard() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void take_stream(void* stream) {
  const std::lock_guard lock(guard());
  take_stream_unguarded(stream);
}

void give_stream_back(void* stream) {
  const std::lock_guard lock(guard());
  give_stream_back_unguarded(stream);
}

void number_message(void* message, Catch::StringRef macro, const Catch::SourceLineInfo& place,
                    Catch::ResultWas::OfType type) {
  const std::lock_guard lock(guard());
  number_message_unguarded(message, macro, place, type);
}
