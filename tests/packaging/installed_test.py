#!/usr/bin/env python3
"""Installs the build, and moves the installed tree. Builds programs with nothing but g++ and pkg-config, and uses the
manual pages and completions.

    installed_test.py BUILD SCRATCH COMPILER
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from building_page import PAGE, ROOT, call, console, write_readmes_test

BUILD, SCRATCH, COMPILER = (pathlib.Path(argument) for argument in sys.argv[1:4])
del sys.argv[1:4]
PREFIX = SCRATCH / "moved"


class Installed(unittest.TestCase):
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
        if not shutil.which("man"):
            (tools / "man").symlink_to(shutil.which("mman"))  # of the package mandoc

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

    @unittest.skipUnless(shutil.which("man") or shutil.which("mman"), "neither man nor mandoc is installed")
    def test_the_pages_commands_show_a_manual_page_and_load_the_completion(self):
        script = console("Manual pages and completion") + "complete -p shardproof\n"
        printed = self.follow("export MANPAGER=cat PAGER=cat MANROFFOPT=-c\n" + script, SCRATCH)
        self.assertIn("Run cases in worlds of real ranks", printed)
        self.assertTrue(printed.endswith("complete -F _shardproof shardproof\n"), printed)

    def test_zsh_finds_its_completion_in_the_folder_that_the_page_names(self):
        folder = re.search(r"^fpath=\(DIR/(share/zsh/\S+) ", PAGE, re.M)[1]
        self.assertTrue((PREFIX / folder / "_shardproof").read_text().startswith("#compdef shardproof\n"))

    def test_links_of_the_installed_pages_lead_somewhere(self):
        pages = list((PREFIX / "share/doc").rglob("*.md"))
        self.assertGreater(len(pages), 30)
        dead = [
            f"{page.name}: {link}"
            for page in pages
            for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
            if not (page.parent / link).exists()
        ]
        self.assertEqual(dead, [])


if __name__ == "__main__":
    unittest.main()
