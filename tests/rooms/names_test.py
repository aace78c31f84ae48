"""Checks names. A qualified name of a type has one definition: two definitions in one program are undefined behaviour,
and confuse readers before that. And no name has a word of the project's old dialect, which readers had to translate."""

import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
FOLDERS = ("harness", "launcher", "reports", "fixtures", "suites", "worker")
SOURCES = (".cpp", ".hpp", ".cu")
NO_CODE = re.compile(
    r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
    re.M | re.S,
)
SCOPES = re.compile(r"\bnamespace\s+([\w:]*)\s*\{"
                    r"|\b(?:struct|class|enum(?:\s+class)?)\s+([\w:]+)(?:\s+final)?\s*(?::[^;{()]*)?\{"
                    r"|[{}]")

DIALECT = set(
    "told tell tells telling mend mends mender dear behind beside whoever nobody somebody seat premises".split()
)


def words_of(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def dialect_in(text):
    """The names with words of the dialect. Names of faults are exempt: reports and waivers have them, so they stay."""
    code = re.sub(r"\bFAULT\(\w+", " ", NO_CODE.sub(" ", text))
    return sorted({name for name in re.findall(r"[A-Za-z_]\w*", code) if words_of(name) & DIALECT})


def foreign_namespaces(room, text):
    """The namespaces of other rooms that a file of this room opens for more than forward declarations.

    `detail` is for macros, and users write `formula`.
    """
    blocks = re.findall(r"^namespace shardproof::(\w+)[\w:]* \{\n((?:(?:struct|class) \w+;\n)*)(\})?", text, re.M)
    return sorted({name for name, _, closed in blocks if name not in (room, "detail", "formula") and not closed})


def types_of(text):
    """The qualified names of the types that a file defines in namespaces with names."""
    names, scopes = [], []
    for scope in SCOPES.finditer(NO_CODE.sub(" ", text)):
        namespace, name = scope.groups()
        if scope[0] == "}":
            scopes = scopes[:-1]
            continue
        if name and scopes and all(scopes) and "::" not in name:
            names.append("::".join([*scopes, name]))
        scopes.append(namespace or None)  # None: no namespace, or one without a name
    return names


class Names(unittest.TestCase):
    maxDiff = None

    def test_types_in_namespaces_are_found(self):
        text = """
            namespace shardproof::base {
              struct A { struct Inner {}; }; enum class B : int { a }; class C final : public A {}; struct D;
            }
            namespace { struct Hidden {}; } // struct E {
            const char* text = "struct F {"; template <class T> struct G {};
        """
        self.assertEqual(types_of(text), ["shardproof::base::A", "shardproof::base::B", "shardproof::base::C"])

    def test_each_type_is_defined_once(self):
        files = collections.defaultdict(list)
        for folder in FOLDERS:
            for file in sorted((ROOT / folder).rglob("*")):
                if file.suffix in SOURCES:
                    for name in types_of(file.read_text(encoding="utf-8")):
                        files[name].append(file.relative_to(ROOT).as_posix())
        self.assertGreater(len(files), 500)
        self.assertEqual({name: where for name, where in files.items() if len(where) > 1}, {})

    def test_foreign_namespaces_are_found(self):
        text = """
namespace shardproof::base {
struct A;
}
namespace shardproof::world::inner {
}
namespace shardproof::trace {
struct A {};
}
"""
        self.assertEqual(foreign_namespaces("world", text), ["trace"])
        self.assertEqual(foreign_namespaces("trace", text), [])

    def test_each_room_is_a_namespace(self):
        found = {}
        for room in (folder for folder in (ROOT / "harness").iterdir() if folder.is_dir()):
            files = [file for file in room.rglob("*") if file.suffix in SOURCES]
            texts = {file: file.read_text(encoding="utf-8") for file in files}
            found.update((str(file), foreign_namespaces(room.name, text)) for file, text in texts.items())
            if room.name not in ("shardproof", "subject", "faults"):  # users write all names of these
                self.assertTrue(any(f"namespace shardproof::{room.name}" in text for text in texts.values()), room.name)
        self.assertEqual({file: names for file, names in found.items() if names}, {})

    def test_dialect_is_found(self):
        text = 'FAULT(gathers_behind_compute) Told told_; int teller = beside_a; // nobody\n f("somebody");'
        self.assertEqual(dialect_in(text), ["Told", "beside_a", "told_"])

    def test_names_have_no_dialect(self):
        files = [file for folder in (*FOLDERS, "tests", "bench") for file in (ROOT / folder).rglob("*")]
        found = {file: dialect_in(file.read_text(encoding="utf-8")) for file in files if file.suffix in SOURCES}
        self.assertEqual({str(file.relative_to(ROOT)): names for file, names in found.items() if names}, {})


if __name__ == "__main__":
    unittest.main()
