// A program that runs an engine: `host ENGINE`, or `host TAP ENGINE` to load a tap first. Both as a harness would: the
// tap for all to see, the engine for itself.
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** arguments) {
  if (count > 2 && ::dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::printf("%s\n", ::dlerror());
    return 1;
  }
  void* const engine = ::dlopen(arguments[count - 1], RTLD_NOW | RTLD_LOCAL);
  if (engine == nullptr) {
    std::printf("%s\n", ::dlerror());
    return 1;
  }
  reinterpret_cast<void (*)()>(::dlsym(engine, "engine_run"))();
}
