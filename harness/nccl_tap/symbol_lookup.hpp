// dlsym: the system's, and the tap's in front of it. An engine that loads NCCL itself (Python's ctypes does, and stubs that keep it optional) looks
// its functions up in the library that it opened, where no other library's functions are ever found. With the tap preloaded, it is given
// the tap's function where it asks for NCCL's.
#pragma once

namespace shardproof::nccl_tap {

/// The system's dlsym, for addresses that do not depend on who asks (no RTLD_NEXT).
void* system_dlsym(void* handle, const char* name);

}  // namespace shardproof::nccl_tap
