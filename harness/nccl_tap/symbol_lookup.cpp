#include "harness/nccl_tap/symbol_lookup.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <string_view>

#include "harness/nccl_tap/functions.hpp"
#include "harness/nccl_tap/nccl_library.hpp"

namespace shardproof::nccl_tap {

namespace {

using Dlsym = void* (*)(void*, const char*) noexcept;

/// Asks for a version of dlsym, because dlsym without a version would be the tap's own. glibc 2.34 moved dlsym into
/// libc. The other versions are the first ones of their architectures.
Dlsym find_system_dlsym() {
  for (const char* const version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (void* const found = ::dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Dlsym>(found);
  }
  return nullptr;
}

Dlsym cached_dlsym() {
  static std::atomic<Dlsym> found = nullptr;
  Dlsym known = found.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = find_system_dlsym();
    found.store(known, std::memory_order_release);
  }
  return known;
}

void say_that_another_copy_is_not_seen(const void* function) {
  static std::atomic<bool> is_said = false;
  if (is_said.exchange(true)) return;
  Dl_info where{};
  const char* const path = ::dladdr(function, &where) == 0 ? "of an unknown path" : where.dli_fname;
  std::fprintf(
      stderr, "shardproof: this process has a second copy of NCCL, %s; the tap does not record calls looked up in it\n",
      path);
}

/// Chooses between `found`, the system's function of this name in a library, and the tap's function.
void* in_place_of(void* found, const char* name) {
  void* const ours = found == nullptr ? nullptr : tap_function(name);
  if (ours == nullptr || base_of(found) == base_of(ours)) return found;
  const NcclLibrary* const library = nccl_library(found);
  if (library == nullptr || library->base != base_of(found)) {
    // The tap passes all calls on to one NCCL. A communicator of one copy is not valid in another copy.
    say_that_another_copy_is_not_seen(found);
    return found;
  }
  return ours;
}

}  // namespace

void* system_dlsym(void* handle, const char* name) {
  const Dlsym system = cached_dlsym();
  return system == nullptr ? nullptr : system(handle, name);
}

}  // namespace shardproof::nccl_tap

// RTLD_NEXT and RTLD_DEFAULT depend on the caller, which the system's dlsym derives from its return address. So this
// function must jump to the system's dlsym and not call it. An optimizing compiler turns a call in return position into
// a jump, and this file is always optimized.
extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  using namespace shardproof::nccl_tap;
  const Dlsym system = cached_dlsym();
  if (system == nullptr) return nullptr;
  const bool is_nccl = handle != RTLD_NEXT && handle != RTLD_DEFAULT && std::string_view(name).starts_with("nccl");
  if (is_nccl) return in_place_of(system(handle, name), name);
  return system(handle, name);
}
