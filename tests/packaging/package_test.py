#!/usr/bin/env python3
"""Makes the Debian package of the build, unpacks it, and uses it as a user of the package would.

    package_test.py BUILD SCRATCH GENERATOR COMPILER
"""
import pathlib
import re
import shutil
import sys
import unittest

from building_page import ROOT, call, console, write_readmes_test

BUILD, SCRATCH = (pathlib.Path(argument) for argument in sys.argv[1:3])
GENERATOR, COMPILER = sys.argv[3:5]
del sys.argv[1:5]
PREFIX = SCRATCH / "root/usr"
HEADERS = {"catch2", "libfmt-dev", "nlohmann-json3-dev", "libeigen3-dev", "libdlpack-dev"}


def fields_of(package):
    return dict(re.findall(r"^(\S+): (.*)", call(f"dpkg-deb --field {package}", SCRATCH), re.M))


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        (SCRATCH / "root").mkdir(parents=True)
        # The page's command, with a folder of its own: it makes the package in build/packages.
        make = "cpack --config build/CPackConfig.cmake"
        assert make in console("Packages"), make
        call(f"{make.replace('build/', f'{BUILD}/')} -B {SCRATCH}/packages", SCRATCH)
        cls.package, = (SCRATCH / "packages").glob("*.deb")
        call(f"dpkg-deb -x {cls.package} root", SCRATCH)

    def test_the_name_has_the_version_and_the_architecture(self):
        version = re.search(r"^project\(shardproof VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
        architecture = call("dpkg --print-architecture", SCRATCH).strip()
        self.assertEqual(self.package.name, f"shardproof_{version}_{architecture}.deb")
        fields = fields_of(self.package)
        self.assertEqual(
            [fields[name] for name in ("Package", "Version", "Architecture")], ["shardproof", version, architecture]
        )

    def test_it_depends_on_libraries_of_its_programs_and_recommends_packages_of_headers(self):
        fields = fields_of(self.package)
        self.assertRegex(fields["Depends"], r"\blibc6 \(>= [\d.]+\)")
        self.assertNotIn("-dev", fields["Depends"])
        recommended = {word.split()[0] for word in fields["Recommends"].split(", ")}
        self.assertLessEqual(HEADERS, recommended)

    def test_the_files_are_where_debian_wants_them(self):
        listing = call(f"dpkg-deb --contents {self.package}", SCRATCH)
        for file in (
            "bin/shardproof", "bin/shardproof-worker", "include/shardproof/harness/shardproof.hpp",
            "lib/cmake/shardproof/shardproof-config.cmake", "lib/pkgconfig/shardproof.pc",
            "share/man/man1/shardproof.1", "share/bash-completion/completions/shardproof",
            "share/zsh/vendor-completions/_shardproof",
            "share/doc/shardproof/copyright", "share/doc/shardproof/LICENSE", "share/doc/shardproof/docs/building.md",
        ):
            self.assertRegex(listing, rf"(?m) root/root .* \./usr/{re.escape(file)}$")
        self.assertNotIn("site-functions", listing)
        self.assertEqual(set(re.findall(r" \./(\w+)/", listing)), {"usr"})

    def test_the_readmes_test_builds_by_cmake_and_by_pkg_config(self):
        folder = SCRATCH / "mine"
        write_readmes_test(folder)
        call(
            f"cmake -B build -G '{GENERATOR}' -D CMAKE_PREFIX_PATH={PREFIX} -D CMAKE_CXX_COMPILER={COMPILER}\n"
            "cmake --build build", folder,
        )
        printed = call(f"{PREFIX}/bin/shardproof run --worker build/my_tests --out by_cmake", folder)
        self.assertIn("2 cases in 2 worlds: 2 passed", printed)
        script = console("pkg-config").replace("DIR", str(PREFIX)).replace("g++ ", f"{COMPILER} ")
        self.assertIn("2 cases in 2 worlds: 2 passed", call(script, folder))

    def test_the_suite_runs(self):
        printed = call(f"{PREFIX}/bin/shardproof run 'overlap/training_overlap[W=2]' --out suite", SCRATCH)
        self.assertIn("1 case in 1 world: 1 passed", printed)


if __name__ == "__main__":
    unittest.main()
