"""Only the files of an engine kind know that kind. The other files of the serial model and the shared checks include no
plan of a kind."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
# Each kind of engine has a schema of its section.
KINDS = [file.name.removesuffix(".schema.json") for file in (ROOT / "harness/scenario/schema").glob("*.schema.json")]
KINDS.remove("scenario")
FOLDERS = {"fixtures/oracles": "serial_", "suites/checks": ""}  # each with the prefix of its files


class Includes(unittest.TestCase):
    def test_common_files_know_no_kind(self):
        for folder, beginning in FOLDERS.items():
            files = [file for file in sorted((ROOT / folder).glob(f"{beginning}*.?pp"))
                     if not any(file.name.startswith(beginning + kind) for kind in KINDS)]
            self.assertGreater(len(files), 5)
            for file in files:
                text = file.read_text(encoding="utf-8")
                for kind in KINDS:
                    with self.subTest(file=file.name, kind=kind):
                        self.assertNotIn(f'"harness/scenario/plan/{kind}', text)

    def test_each_kind_has_its_files(self):
        self.assertGreater(len(KINDS), 1)
        for folder, beginning in FOLDERS.items():
            for kind in KINDS:
                self.assertTrue((ROOT / folder / f"{beginning}{kind}.cpp").is_file(), f"{folder}: {kind}")


if __name__ == "__main__":
    unittest.main()
