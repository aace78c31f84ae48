#!/usr/bin/env python3
"""Installs the build, moves the installed tree, and builds programs with nothing but g++ and pkg-config.

    pkg_config_test.py BUILD SCRATCH COMPILER
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from building_page import ROOT, call, console, write_readmes_test

BUILD, SCRATCH, COMPILER = (pathlib.Path(argument) for argument in sys.argv[1:4])
del sys.argv[1:4]
PREFIX = SCRATCH / "moved"


class PkgConfig(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        subprocess.run(
            ["cmake", "--install", BUILD, "--prefix", SCRATCH / "first"], check=True, stdout=subprocess.DEVNULL
        )
        (SCRATCH / "first").rename(PREFIX)
        # The page writes g++; the build's compiler has made the libraries.
        tools = SCRATCH / "tools"
        tools.mkdir()
        (tools / "g++").symlink_to(COMPILER)

    def follow(self, script, folder):
        script = f"export PATH={SCRATCH}/tools:$PATH\n" + script.replace("DIR", str(PREFIX))
        return call(script, folder)

    def test_the_pages_commands_build_and_run_the_readmes_test(self):
        folder = SCRATCH / "main"
        write_readmes_test(folder)
        self.assertIn("2 cases in 2 worlds: 2 passed", self.follow(console("pkg-config"), folder))

    def test_a_program_that_plays_scenarios(self):
        """The first program of docs/gpu.md, on the simulated device."""
        folder = SCRATCH / "play"
        folder.mkdir()
        page = (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
        (folder / "my_tests.cpp").write_text(re.search(r"```cpp\n(.*?)```", page, re.S)[1], encoding="utf-8")
        script = console("pkg-config").replace("libs shardproof)", "libs shardproof-play)")
        self.assertIn("shardproof-play", script)
        self.assertIn(" passed", self.follow(script, folder))

    def test_the_files_name_the_installed_launcher_and_version(self):
        for module in ("shardproof", "shardproof-play"):
            ask = f"export PKG_CONFIG_PATH=DIR/lib/pkgconfig\npkg-config --variable=launcher {module}"
            launcher = self.follow(ask, SCRATCH).strip()
            version = self.follow(ask.replace("--variable=launcher", "--modversion"), SCRATCH)
            self.assertEqual(call(f"{launcher} --version", SCRATCH), version)

    def test_programs_get_the_link_options_of_the_cmake_package(self):
        """Without these options, a program links, and ranks that are threads write into each other's messages."""
        targets = (PREFIX / "lib/cmake/shardproof/shardproof-targets.cmake").read_text(encoding="utf-8")
        wanted = {f"-Wl,{option}" for option in re.findall(r"LINKER:([^;\"]+)", targets)}
        linked = self.follow("PKG_CONFIG_PATH=DIR/lib/pkgconfig pkg-config --libs shardproof", SCRATCH).split()
        self.assertLessEqual(wanted, set(linked))


if __name__ == "__main__":
    unittest.main()
