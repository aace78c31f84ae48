#include "harness/nccl_tap/nccl_library.hpp"

#include <dlfcn.h>

#include <atomic>

#include "harness/nccl_tap/symbol_lookup.hpp"

namespace shardproof::nccl_tap {

namespace {

/// `pncclX` is NCCL's own second name of `ncclX`, which no other library replaces. A library without these names
/// (another vendor's) has the plain names.
template <class Function>
void look_up(void* library, const char* own_name, Function& function) {
  void* found = system_dlsym(library, own_name);
  if (found == nullptr) found = system_dlsym(library, own_name + 1);
  function = reinterpret_cast<Function>(found);
}

/// A handle of a library that is loaded already. The handle is never closed, because the library's functions stay in
/// use.
void* loaded_library(const void* seen) {
  if (void* const library = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD)) return library;
  Dl_info where{};
  if (seen == nullptr || ::dladdr(seen, &where) == 0) return nullptr;
  return ::dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

const NcclLibrary* find_library(const void* seen) {
  void* const handle = loaded_library(seen);
  if (handle == nullptr) return nullptr;
  NcclLibrary found;
#define SHARDPROOF_NCCL_LOOK_UP(name) look_up(handle, "pnccl" #name, found.functions.name);
  SHARDPROOF_NCCL_FUNCTIONS(SHARDPROOF_NCCL_LOOK_UP)
#undef SHARDPROOF_NCCL_LOOK_UP
  look_up(handle, "pncclGetVersion", found.functions.GetVersion);
  look_up(handle, "pncclCommCount", found.functions.CommCount);
  look_up(handle, "pncclCommUserRank", found.functions.CommUserRank);
  if (found.functions.GetVersion == nullptr) return nullptr;
  Dl_info where{};
  if (::dladdr(reinterpret_cast<const void*>(found.functions.GetVersion), &where) != 0) {
    found.path = where.dli_fname;
    found.base = where.dli_fbase;
  }
  if (found.functions.GetVersion(&found.version) != ncclSuccess) found.version = 0;
  return new NcclLibrary(found);
}

}  // namespace

const void* base_of(const void* address) {
  Dl_info where{};
  return ::dladdr(address, &where) == 0 ? nullptr : where.dli_fbase;
}

const NcclLibrary* nccl_library(const void* seen) {
  // Never freed: engines call NCCL from threads that outlive main. Two threads may both find the library; the first
  // result stays.
  static std::atomic<const NcclLibrary*> library = nullptr;
  const NcclLibrary* known = library.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  const NcclLibrary* const found = find_library(seen);
  if (found == nullptr) return nullptr;
  if (library.compare_exchange_strong(known, found, std::memory_order_acq_rel)) return found;
  delete found;
  return known;
}

}  // namespace shardproof::nccl_tap
