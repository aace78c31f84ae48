// Stands in for the CUDA driver as far as the tap asks it: a stream runs a host function at once, and says so. One
// stream answers with an error.
#include <chrono>
#include <cstdint>
#include <cstdio>

// NOLINTNEXTLINE(readability-identifier-naming): CUDA's own name
extern "C" int cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
  constexpr std::uintptr_t broken_stream = 0xbad;
  constexpr int invalid_context = 201;
  if (reinterpret_cast<std::uintptr_t>(stream) == broken_stream) return invalid_context;
  const auto begin = std::chrono::steady_clock::now();
  function(argument);
  const bool slept = std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(3);
  std::printf("host function on stream %lx, 3 ms at least: %s\n", reinterpret_cast<unsigned long>(stream),
              slept ? "yes" : "no");
  return 0;
}
