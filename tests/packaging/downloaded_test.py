#!/usr/bin/env python3
"""What `cmake --install` leaves out, and prints, if CMake had to download a library. Configures this tree as if a
library were not installed. The download is an empty project, and the build is a set of empty files.

    downloaded_test.py ROOT SCRATCH GENERATOR COMPILER
"""
import pathlib
import re
import shutil
import sys
import unittest

from building_page import call

ROOT, SCRATCH = (pathlib.Path(argument) for argument in sys.argv[1:3])
GENERATOR, COMPILER = sys.argv[3:5]
del sys.argv[1:5]

PROJECT = """\
cmake_minimum_required(VERSION 3.25)
project(download LANGUAGES NONE)
add_library(download INTERFACE)
add_library({target} ALIAS download)
"""


class Downloaded(unittest.TestCase):
    def install(self, package, target):
        """Returns the output of the install, and the installed tree."""
        scratch = SCRATCH / package
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "download").mkdir(parents=True)
        (scratch / "download/CMakeLists.txt").write_text(PROJECT.format(target=target))
        build, prefix = scratch / "build", scratch / "prefix"
        call(
            f"cmake -S {ROOT} -B {build} -G '{GENERATOR}' -D CMAKE_CXX_COMPILER={COMPILER} -D SHARDPROOF_TESTS=OFF "
            f"-D CMAKE_DISABLE_FIND_PACKAGE_{package}=ON -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON "
            f"-D FETCHCONTENT_SOURCE_DIR_{package.upper()}={scratch}/download -D CMAKE_SKIP_RPATH=ON", scratch,
        )
        built = re.search(r"^set\(artifacts\n(.*?)\n\)", (build / "require_package.cmake").read_text(), re.S | re.M)[1]
        artifacts = [pathlib.Path(file) for file in re.findall(r'"(.*)"', built)]
        pages, = (file.parent for file in artifacts if file.name == "complete")
        for file in (*artifacts, pages / "man1/shardproof.1", pages / "bash/shardproof", pages / "zsh/_shardproof"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return call(f"cmake --install {build} --prefix {prefix}", scratch), prefix

    def test_programs_are_installed_without_libraries_that_need_the_download(self):
        printed, prefix = self.install("nlohmann_json", "nlohmann_json::nlohmann_json")
        self.assertRegex(
            printed.replace("\n", " "),
            "shardproof: the programs are installed. The libraries and headers .* are left out.* need nlohmann_json, .*"
            "install nlohmann_json .*delete .*/build, build again",
        )
        for file in ("bin/shardproof", "share/man/man1/shardproof.1", "lib/libshardproof-worker.so"):
            self.assertTrue((prefix / file).exists(), file)
        for pattern in ("include/**/*.hpp", "**/*.a", "**/*.pc", "**/*.cmake"):
            self.assertEqual(list(prefix.glob(pattern)), [])

    def test_a_library_of_the_launcher_alone_is_not_missed(self):
        printed, prefix = self.install("CLI11", "CLI11::CLI11")
        self.assertNotIn("left out", printed)
        for file in ("bin/shardproof", "lib/libshardproof_main.a", "lib/cmake/shardproof/shardproof-config.cmake",
                     "lib/pkgconfig/shardproof.pc", "include/shardproof/harness/shardproof.hpp"):
            self.assertTrue((prefix / file).exists(), file)


if __name__ == "__main__":
    unittest.main()
