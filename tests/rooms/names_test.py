"""A qualified name of a type has one definition: two definitions in one program are undefined behaviour, and confuse
readers before that."""

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


if __name__ == "__main__":
    unittest.main()
