"""Every tracked C, C++, Python, shell, CMake and awk file has at most 120 columns, code and comments alike."""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
COLUMNS = 120
SOURCES = (".c", ".cpp", ".hpp", ".h", ".cu", ".py", ".sh", ".cmake", ".awk")


def is_code(path):
    """Whether a file is source code. Scripts without a suffix begin with `#!`."""
    if path.suffix:
        return path.suffix in SOURCES or path.name == "CMakeLists.txt"
    with path.open("rb") as content:
        return content.read(2) == b"#!"


def long_lines(file, text):
    """A message for each line that is too long."""
    return [
        f"{file}:{number}: {len(line)} columns; break the line at {COLUMNS} columns"
        for number, line in enumerate(text.split("\n"), 1)
        if len(line) > COLUMNS
    ]


class Columns(unittest.TestCase):
    def test_a_long_line_is_found(self):
        self.assertEqual(
            long_lines("suites/long.cpp", "\n".join(["é" * 120, "x" * 121, "", "  // " + "x" * 120])),
            [
                "suites/long.cpp:2: 121 columns; break the line at 120 columns",
                "suites/long.cpp:4: 125 columns; break the line at 120 columns",
            ],
        )

    def test_scripts_without_a_suffix_are_code(self):
        for file, expected in (("run", True), ("CMakeLists.txt", True), ("LICENSE", False), ("README.md", False)):
            with self.subTest(file):
                self.assertEqual(is_code(ROOT / file), expected)

    def test_no_line_is_too_long(self):
        tracked = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, stdout=subprocess.PIPE).stdout
        files = [file for file in tracked.decode().split("\0") if (ROOT / file).is_file() and is_code(ROOT / file)]
        self.assertGreater(len(files), 1000)
        found = [line for file in files for line in long_lines(file, (ROOT / file).read_text(encoding="utf-8"))]
        if found:
            self.fail("\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
