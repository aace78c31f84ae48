"""Only the files of an engine kind know that kind. The common files of the generator include no header of a kind, and
use no name of its code."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
GENERATOR = ROOT / "harness/scenario/generator"
REGISTRY = "engine_generators.cpp"
# Each kind of engine has a schema of its section.
KINDS = [file.name.removesuffix(".schema.json") for file in (ROOT / "harness/scenario/schema").glob("*.schema.json")]
KINDS.remove("scenario")


def code_of(text):
    """Removes comments and texts, in which the name of a kind may be an ordinary word."""
    return re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', "", text)


def names_kind(code, kind):
    """`kind(…)`, `kind_…`, `draw_kind_…` or `Kind…`, for example `KindPlan`."""
    camel = "".join(part.capitalize() for part in kind.split("_"))
    return re.search(rf"\b(?:\w+_)?{kind}(?:\s*\(|_\w)|\b{camel}[A-Z]", code) is not None


class Includes(unittest.TestCase):
    def test_names_are_distinguished_from_words(self):
        for code in (
            "mirror(plan)",
            "mirror_generator()",
            "draw_mirror_groups(s)",
            "MirrorPlan section",
            "MirrorFeature::all",
        ):
            self.assertTrue(names_kind(code_of(code), "mirror"), code)
        for code in (
            'names = {"mirror", "shard"};',
            "int mirror = 1;",
            "// as mirror() does",
            "mirrored(plan)",
            "has_mirrors(plan)",
        ):
            self.assertFalse(names_kind(code_of(code), "mirror"), code)

    def test_common_files_know_no_kind(self):
        files = [file for file in sorted(GENERATOR.iterdir()) if not file.name.startswith(tuple(KINDS))]
        self.assertGreater(len(files), 10)
        for file in files:
            for kind in KINDS:
                with self.subTest(file=file.name, kind=kind):
                    text = file.read_text(encoding="utf-8")
                    self.assertNotIn(f'"harness/scenario/plan/{kind}', text)
                    if file.name != REGISTRY:
                        self.assertNotIn(f'"harness/scenario/generator/{kind}', text)
                        self.assertFalse(names_kind(code_of(text), kind))

    def test_the_registry_has_every_kind(self):
        text = (GENERATOR / REGISTRY).read_text(encoding="utf-8")
        self.assertGreater(len(KINDS), 0)
        for kind in KINDS:
            self.assertIn(f'"harness/scenario/generator/{kind}.hpp"', text)


if __name__ == "__main__":
    unittest.main()
