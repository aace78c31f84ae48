"""The structs of shardproof.abi equal the structs of harness/subject/shardproof.h. The compiler gives every offset."""

import ctypes
import inspect
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from shardproof import abi

# Names in C that differ from the names in Python.
STRUCTS = {
    "SubjectTable": "shardproof_subject",
    "DLTensor": "DLTensor",
    "DLDevice": "DLDevice",
    "DLDataType": "DLDataType",
}
FIELDS = {("Collective", "input"): "in"}
# Each kind with the prefix of its enumerators in C. Their order in Python gives their values.
ENUMS = {
    "status": ("SHARDPROOF_", abi.STATUSES),
    "stream_role": ("SHARDPROOF_STREAM_", abi.STREAM_ROLES),
    "work_kind": ("SHARDPROOF_WORK_", abi.WORK_KINDS),
    "memory": ("SHARDPROOF_MEMORY_", abi.MEMORY_CLASSES),
    "collective_kind": ("SHARDPROOF_", abi.COLLECTIVE_KINDS),
    "reduce_op": ("SHARDPROOF_OP_", abi.REDUCE_OPS),
}
CONSTANTS = {
    "SHARDPROOF_ABI_VERSION": abi.ABI_VERSION,
    "SHARDPROOF_COMPUTE_STREAM": abi.COMPUTE_STREAM,
    "kDLCPU": abi.CPU,
}


def c_name(name: str) -> str:
    return STRUCTS.get(name) or "shardproof_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def structs() -> dict[str, type[ctypes.Structure]]:
    return {name: value for name, value in inspect.getmembers(abi, inspect.isclass)
            if issubclass(value, ctypes.Structure) and value is not ctypes.Structure}


def enumerators() -> dict[str, list[str]]:
    """The names in each enumeration of the header, in their order."""
    text = re.sub(r"/\*.*?\*/", "", Path(os.environ["HEADER"]).read_text(), flags=re.DOTALL)
    bodies = re.findall(r"typedef uint32_t shardproof_(\w+);\s*enum \{(.*?)\}", text, flags=re.DOTALL)
    return {name: re.findall(r"SHARDPROOF_\w+", body) for name, body in bodies}


def as_compiled() -> dict[str, int]:
    """`struct` to its size, `struct.field` to its offset, a constant to its value."""
    lines = []
    for name, struct in structs().items():
        lines.append(f'printf("{name} %zu\\n", sizeof({c_name(name)}));')
        for field, *_ in struct._fields_:
            there = FIELDS.get((name, field), field)
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({c_name(name)}, {there}));')
    for constant in (*CONSTANTS, *(name for names in enumerators().values() for name in names)):
        lines.append(f'printf("{constant} %zu\\n", (size_t){constant});')
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "layout.cpp")
        source.write_text(
            '#include <cstddef>\n#include <cstdio>\n#include "shardproof.h"\nint main() {\n'
            + "\n".join(lines)
            + "\n}\n"
        )
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
        for constant, value in CONSTANTS.items():
            self.assertEqual(value, compiled[constant], constant)
        there = enumerators()
        self.assertEqual(there.keys(), ENUMS.keys())
        for kind, (prefix, names) in ENUMS.items():
            with self.subTest(enum=kind):
                self.assertEqual(
                    {name: compiled[name] for name in there[kind]},
                    {prefix + name.upper(): i for i, name in enumerate(names)},
                )


if __name__ == "__main__":
    unittest.main()
