"""Only the files of an engine kind know that kind: the common files of the generator do not include its headers."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
GENERATOR = ROOT / "harness/scenario/generator"
REGISTRY = "engine_generators.cpp"
# Each kind of engine has a schema of its section.
KINDS = [file.name.removesuffix(".schema.json") for file in (ROOT / "harness/scenario/schema").glob("*.schema.json")]
KINDS.remove("scenario")


class Includes(unittest.TestCase):
    def test_common_files_know_no_kind(self):
        files = [file for file in sorted(GENERATOR.iterdir()) if not file.name.startswith(tuple(KINDS))]
        self.assertGreater(len(files), 10)
        for file in files:
            for kind in KINDS:
                with self.subTest(file=file.name, kind=kind):
                    text = file.read_text(encoding="utf-8")
                    self.assertNotIn(f'"harness/scenario/plan/{kind}', text)
                    if file.name != REGISTRY:
                        self.assertNotIn(kind, text)

    def test_the_registry_has_every_kind(self):
        text = (GENERATOR / REGISTRY).read_text(encoding="utf-8")
        self.assertGreater(len(KINDS), 0)
        for kind in KINDS:
            self.assertIn(f'"harness/scenario/generator/{kind}.hpp"', text)


if __name__ == "__main__":
    unittest.main()
