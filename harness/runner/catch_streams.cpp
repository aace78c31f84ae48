// Catch2 makes every text, that of a message as that of a failed expression, in a stream from a pool that all threads share and
// nothing guards, and numbers messages by a counter that is no atomic. Both happen inside its macros, in the program's own code, where nothing
// of ours comes in between. So the linker leads these few functions of Catch2 here (`--wrap`, see CMakeLists.txt), and one thread at a time
// to Catch2: taking a stream and giving it back is guarded, using it needs no guard.
#include <catch2/internal/catch_message_info.hpp>
#include <catch2/internal/catch_result_type.hpp>
#include <catch2/internal/catch_source_line_info.hpp>
#include <catch2/internal/catch_stringref.hpp>
#include <mutex>

extern "C" {
void take_stream_unguarded(void* stream) asm("__real__ZN5Catch20ReusableStringStreamC1Ev");
void give_stream_back_unguarded(void* stream) asm("__real__ZN5Catch20ReusableStringStreamD1Ev");
void number_message_unguarded(void* message, Catch::StringRef macro, const Catch::SourceLineInfo& place, Catch::ResultWas::OfType type) asm(
    "__real__ZN5Catch11MessageInfoC1ENS_9StringRefERKNS_14SourceLineInfoENS_9ResultWas6OfTypeE");

void take_stream(void* stream) asm("__wrap__ZN5Catch20ReusableStringStreamC1Ev");
void give_stream_back(void* stream) asm("__wrap__ZN5Catch20ReusableStringStreamD1Ev");
void number_message(void* message, Catch::StringRef macro, const Catch::SourceLineInfo& place, Catch::ResultWas::OfType type) asm(
    "__wrap__ZN5Catch11MessageInfoC1ENS_9StringRefERKNS_14SourceLineInfoENS_9ResultWas6OfTypeE");
}

namespace {

// Beside what it guards: as process-wide as that, and as old.
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

void number_message(void* message, Catch::StringRef macro, const Catch::SourceLineInfo& place, Catch::ResultWas::OfType type) {
  const std::lock_guard lock(guard());
  number_message_unguarded(message, macro, place, type);
}
