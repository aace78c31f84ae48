// An engine that loads NCCL at run time with local symbols, and looks its functions up.
#include <dlfcn.h>

#include <cstdlib>

#include "tests/nccl_tap/programs/engine_calls.hpp"

extern "C" void engine_run() {
  void* const library = ::dlopen(ENGINE_NCCL, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", ::dlerror());
    std::exit(1);
  }
  engine::Nccl nccl{};
#define ENGINE_LOOKED_UP(name) nccl.name = reinterpret_cast<decltype(nccl.name)>(::dlsym(library, "nccl" #name));
  ENGINE_FUNCTIONS(ENGINE_LOOKED_UP)
#undef ENGINE_LOOKED_UP
  engine::make_all_calls(nccl);
  engine::print_mapped("libnccl");
  // A look-up without a library depends on its caller. An engine that is loaded with local symbols is visible only to
  // its owner.
  const bool is_next = ::dlsym(RTLD_NEXT, "engine_run") == nullptr;
  const bool is_own = ::dlsym(RTLD_DEFAULT, "engine_run") == reinterpret_cast<void*>(&engine_run);
  const bool is_visible =
      ::dlsym(RTLD_DEFAULT, "malloc") != nullptr && ::dlsym(RTLD_DEFAULT, "engine_no_such_name") == nullptr;
  std::printf("look-ups %s\n", is_next && is_own && is_visible ? "right" : "wrong");
  std::fflush(stdout);
}
