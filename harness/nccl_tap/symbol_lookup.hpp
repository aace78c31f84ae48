// The system's dlsym, and the tap's dlsym that replaces it. Some engines load NCCL themselves: Python's ctypes does,
// and so do stubs that keep NCCL optional. Such an engine looks NCCL's functions up in the library that it opened. That
// lookup never finds functions of another library. With the tap preloaded, the tap's dlsym gives the engine the tap's
// function in place of NCCL's.
#pragma once

namespace shardproof::nccl_tap {

/// The system's dlsym, for lookups that do not depend on the caller (no RTLD_NEXT).
void* system_dlsym(void* handle, const char* name);

}  // namespace shardproof::nccl_tap
