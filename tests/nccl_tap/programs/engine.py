"""An engine in Python. `engine.py library NCCL…` loads one or more copies of NCCL. `engine.py engine ENGINE` loads an
engine that is linked to NCCL."""
import ctypes
import sys

what, *paths = sys.argv[1:]
if what == "engine":
    ctypes.CDLL(paths[0]).engine_run()
    sys.exit()

pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
for path in paths:
    library = ctypes.CDLL(path)
    library.ncclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
    library.ncclAllGather.argtypes = [pointer, pointer, size, number, pointer, pointer]
    print("all_reduce", library.ncclAllReduce(None, None, 77, 7, 4, None, 0x20), flush=True)
    print("all_gather", library.ncclAllGather(None, None, 78, 8, None, 0x10), flush=True)
    identity = (ctypes.c_char * 128)()
    print("get_unique_id", library.ncclGetUniqueId(identity), flush=True)
for line in open("/proc/self/maps"):
    if "r-xp" in line and "libnccl" in line:
        print("mapped", line.split()[-1])
