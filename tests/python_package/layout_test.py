"""The structs of shardproof.abi are those of harness/subject/shardproof.h: the compiler says where every field is."""

import ctypes
import inspect
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from shardproof import abi

# Where Python calls them otherwise.
STRUCTS = {"SubjectTable": "shardproof_subject", "DLTensor": "DLTensor", "DLDevice": "DLDevice", "DLDataType": "DLDataType"}
FIELDS = {("Collective", "input"): "in"}


def c_name(name: str) -> str:
    return STRUCTS.get(name) or "shardproof_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def structs() -> dict[str, type[ctypes.Structure]]:
    return {name: value for name, value in inspect.getmembers(abi, inspect.isclass)
            if issubclass(value, ctypes.Structure) and value is not ctypes.Structure}


def as_compiled() -> dict[str, int]:
    """`struct` to its size, `struct.field` to its offset."""
    lines = []
    for name, struct in structs().items():
        lines.append(f'printf("{name} %zu\\n", sizeof({c_name(name)}));')
        for field, *_ in struct._fields_:
            there = FIELDS.get((name, field), field)
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({c_name(name)}, {there}));')
    for constant in ("SHARDPROOF_ABI_VERSION", "SHARDPROOF_WORK_OTHER", "SHARDPROOF_MEMORY_OTHER", "SHARDPROOF_STREAM_OTHER",
                     "SHARDPROOF_BARRIER", "SHARDPROOF_OP_MIN"):
        lines.append(f'printf("{constant} %zu\\n", (size_t){constant});')
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "layout.cpp")
        source.write_text('#include <cstddef>\n#include <cstdio>\n#include "shardproof.h"\nint main() {\n' + "\n".join(lines) + "\n}\n")
        program = Path(folder, "layout")
        include = Path(os.environ["HEADER"]).parent
        subprocess.run([os.environ["CC"], f"-I{include}", str(source), "-o", str(program)], check=True)
        printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.split() for line in printed.splitlines())}


class LayoutTest(unittest.TestCase):
    def test_every_struct_and_field(self) -> None:
        compiled = as_compiled()
        self.assertGreater(len(structs()), 15)
        for name, struct in structs().items():
            with self.subTest(struct=name):
                self.assertEqual(ctypes.sizeof(struct), compiled[name])
                for field, *_ in struct._fields_:
                    self.assertEqual(getattr(struct, field).offset, compiled[f"{name}.{field}"], field)
        self.assertEqual(abi.ABI_VERSION, compiled["SHARDPROOF_ABI_VERSION"])
        self.assertEqual(len(abi.WORK_KINDS) - 1, compiled["SHARDPROOF_WORK_OTHER"])
        self.assertEqual(len(abi.MEMORY_CLASSES) - 1, compiled["SHARDPROOF_MEMORY_OTHER"])
        self.assertEqual(len(abi.STREAM_ROLES) - 1, compiled["SHARDPROOF_STREAM_OTHER"])
        self.assertEqual(len(abi.COLLECTIVE_KINDS) - 1, compiled["SHARDPROOF_BARRIER"])
        self.assertEqual(len(abi.REDUCE_OPS) - 1, compiled["SHARDPROOF_OP_MIN"])


if __name__ == "__main__":
    unittest.main()
