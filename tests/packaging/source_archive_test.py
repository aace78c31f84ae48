#!/usr/bin/env python3
"""Makes the source archive, and configures what is in it. With --build, builds, installs and uses it, too. The machine
seems to have no git.

    source_archive_test.py [--build] ROOT BUILD SCRATCH GENERATOR COMPILER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from building_page import call, console, write_readmes_test

IS_BUILT = sys.argv[1] == "--build"
if IS_BUILT:
    del sys.argv[1]
ROOT, BUILD, SCRATCH = (pathlib.Path(argument) for argument in sys.argv[1:4])
GENERATOR, COMPILER = sys.argv[4:6]
del sys.argv[1:6]


def git(*words):
    """The names that a command of git lists, or None where this tree is not a checkout."""
    listed = subprocess.run(["git", *words, "-z"], cwd=ROOT, capture_output=True, text=True)
    return listed.stdout.split("\0")[:-1] if listed.returncode == 0 else None


def committed_files():
    return git("ls-tree", "-r", "--name-only", "HEAD")


@unittest.skipUnless(committed_files(), "this tree is not a git checkout, so its committed files are unknown")
class SourceArchive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        (SCRATCH / "tools").mkdir(parents=True)
        make = "cpack --config build/CPackSourceConfig.cmake"
        assert make in console("Packages"), make
        call(f"{make.replace('build/', f'{BUILD}/')} -B {SCRATCH}/packages", SCRATCH)
        cls.archive, = (SCRATCH / "packages").glob("shardproof-*.tar.gz")
        call(f"tar -xzf {cls.archive}", SCRATCH)
        cls.tree = SCRATCH / cls.archive.name.removesuffix(".tar.gz")
        git = SCRATCH / "tools/git"
        git.write_text("#!/bin/sh\necho 'git was called' >&2\nexit 99\n")
        git.chmod(0o755)

    def call(self, script, **options):
        environment = {**os.environ, "PATH": f"{SCRATCH}/tools:{os.environ['PATH']}", "CXX": COMPILER}
        return call(script, self.tree, env=environment, **options)

    def configure(self, *settings):
        """As docs/building.md says for a build by hand."""
        return self.call(f"cmake --preset default -G '{GENERATOR}' {' '.join(settings)}")

    def test_it_has_the_files_of_the_last_commit_with_their_content(self):
        found = {str(file.relative_to(self.tree)) for file in self.tree.rglob("*") if not file.is_dir()}
        committed = set(committed_files())
        self.assertEqual({file for file in found if not file.startswith("build/")}, committed)
        changed = set(git("diff", "--name-only", "HEAD"))
        self.assertGreater(len(committed - changed), 100)
        for file in committed - changed:
            self.assertEqual((self.tree / file).read_bytes(), (ROOT / file).read_bytes(), file)
            self.assertEqual(os.access(self.tree / file, os.X_OK), os.access(ROOT / file, os.X_OK), file)

    @unittest.skipIf(IS_BUILT, "the other test builds it")
    def test_it_configures_with_its_tests(self):
        self.assertIn("Generating done", self.configure("-D SHARDPROOF_TESTS=ON"))

    @unittest.skipUnless(IS_BUILT, "--build is not given")
    def test_it_builds_installs_and_works(self):
        self.configure("-D SHARDPROOF_TESTS=OFF")
        self.call("cmake --build build --target shardproof_package", timeout=3000)
        prefix = SCRATCH / "prefix"
        self.call(f"cmake --install build --prefix {prefix}")
        folder = SCRATCH / "mine"
        write_readmes_test(folder)
        call(f"cmake -B build -G '{GENERATOR}' -D CMAKE_PREFIX_PATH={prefix} -D CMAKE_CXX_COMPILER={COMPILER}\n"
             "cmake --build build", folder)
        printed = call(f"{prefix}/bin/shardproof run --worker build/my_tests", folder)
        self.assertIn("2 cases in 2 worlds: 2 passed", printed)


if __name__ == "__main__":
    unittest.main()
