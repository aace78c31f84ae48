#!/usr/bin/env python3
"""The project's version is in CMakeLists.txt. Checks that everything else that shows a version shows this one.

    version_test.py ROOT BUILD SHARDPROOF
"""
import pathlib
import re
import subprocess
import sys
import tomllib
import unittest

ROOT, BUILD = (pathlib.Path(argument) for argument in sys.argv[1:3])
SHARDPROOF = sys.argv[3]
del sys.argv[1:4]


def found(pattern, file):
    """The first match of the pattern's group in a file."""
    match = re.search(pattern, file.read_text(encoding="utf-8"), re.M)
    assert match, f"{file} has nothing that matches {pattern}"
    return match[1]


class Version(unittest.TestCase):
    version = found(r"^project\(shardproof VERSION (\S+)", ROOT / "CMakeLists.txt")

    def test_the_newest_heading_of_the_changelog(self):
        self.assertEqual(found(r"^## (\d[^, ]*)", ROOT / "CHANGELOG.md"), self.version)

    def test_the_launcher(self):
        printed = subprocess.run([SHARDPROOF, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed, f"{self.version}\n")

    def test_the_python_package(self):
        text = (ROOT / "fixtures/pytorch/pyproject.toml").read_text(encoding="utf-8")
        self.assertEqual(tomllib.loads(text)["project"]["version"], self.version)

    def test_the_cmake_package(self):
        file = BUILD / "shardproof-config-version.cmake"
        if not file.exists():
            self.skipTest("this build downloaded libraries, so it has no CMake package")
        self.assertEqual(found(r'^set\(PACKAGE_VERSION "(.*)"\)', file), self.version)


if __name__ == "__main__":
    unittest.main()
