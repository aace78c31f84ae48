"""An engine in Python. `engine.py library NCCL` loads NCCL itself; `engine.py engine ENGINE` loads an engine that is linked to it."""
import ctypes
import sys

what, path = sys.argv[1:]
library = ctypes.CDLL(path)
if what == "engine":
    library.engine_run()
    sys.exit()

pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
library.ncclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
library.ncclAllGather.argtypes = [pointer, pointer, size, number, pointer, pointer]
print("all_reduce", library.ncclAllReduce(None, None, 77, 7, 4, None, 0x20))
print("all_gather", library.ncclAllGather(None, None, 78, 8, None, 0x10))
identity = (ctypes.c_char * 128)()
print("get_unique_id", library.ncclGetUniqueId(identity))
for line in open("/proc/self/maps"):
    if "r-xp" in line and "libnccl" in line:
        print("mapped", line.split()[-1])
