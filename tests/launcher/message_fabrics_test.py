#!/usr/bin/env python3
"""Tests `shardproof run` on fabrics of messages: ranks that exchange messages over TCP, or messages of the MPI library
that starts them.

    message_fabrics_test.py LAUNCHER PROGRAM FABRIC [MPIRUN...]      the built command, the program with the trouble
                                                                     cases, tcp or mpi, and the command of each MPI
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import launcher_option_test
from launcher_option_test import Run, foreign

CASES = (
    "good",
    "many",
    "bad/check",
    "bad/killed",
    "fails/requires",
    "fails/throws",
    "fails/asks_for_another_size",
    "fails/asks_for_another_collective",
    "fails/waits_in_a_circle",
    "fails/leaves_the_others_waiting",
    "skip",
)

# A container may deny its users namespaces.
HAS_NETWORKS = subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True).returncode == 0


def outcomes(run):
    return {
        case["id"]: [case["verdict"], *(rank["outcome"] for rank in case["ranks"])] for case in run.report["cases"]
    }


class MessageFabric:
    """The tests of each fabric. Each command starts ranks. If it is None, shardproof starts them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.options = ("--fabric", self.FABRIC)

    def test_outcomes_are_those_of_shared_memory(self):
        usual = Run(self.folder, None, *CASES, "--fabric", "shm")
        self.assertIn("error", usual.verdicts().values(), usual.text())
        for command in self.commands():
            with self.subTest(command):
                run = Run(self.folder, command, *CASES, *self.options)
                self.assertEqual(outcomes(usual), outcomes(run), run.text())
                self.assertEqual(usual.code, run.code, run.text())
                self.assertEqual({world["fabric"] for world in run.report["worlds"]}, {self.FABRIC})
                diff = subprocess.run(
                    [launcher_option_test.LAUNCHER, "diff", str(usual.folder), str(run.folder)],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                self.assertEqual(diff.returncode, 0, diff.stdout)
                self.assertIn("again: ", run.out)
                self.assertIn(f"--fabric {self.FABRIC}", " ".join(run.out.split()))

    def test_a_deadlock_is_found_before_the_deadline(self):
        for command in self.commands():
            with self.subTest(command):
                began = time.monotonic()
                run = Run(self.folder, command, "fails/waits_in_a_circle[W=2]", *self.options)
                text = " ".join(run.out.split())
                self.assertIn("ranks 0, 1 error: every rank waits and no rank can continue: rank 0 in barrier", text)
                self.assertLess(time.monotonic() - began, 30)  # the deadline is 45 s

    def test_a_run_says_that_failed_cases_run_again_on_the_fabric(self):
        run = Run(self.folder, self.commands()[0], "bad/check[W=2]", *self.options)
        again = Run(self.folder, None, "--rerun-failed", str(run.folder))
        self.assertEqual([world["fabric"] for world in again.report["worlds"]], [self.FABRIC], again.text())

    def without_modules(self):
        """From here on, the command is one of a build that reaches no MPI library."""
        home = pathlib.Path(self.folder) / "home"
        (home / "bin").mkdir(parents=True)
        whole = launcher_option_test.LAUNCHER
        self.addCleanup(setattr, launcher_option_test, "LAUNCHER", whole)
        launcher_option_test.LAUNCHER = shutil.copy(whole, home / "bin")


class FabricTcp(MessageFabric, unittest.TestCase):
    FABRIC = "tcp"

    def commands(self):
        return [None, foreign("--as", "torchrun"), foreign("--as", "srun")]

    def test_a_build_without_modules(self):
        self.without_modules()
        run = Run(self.folder, foreign(), "good/stays[W=2]", *self.options)
        self.assertEqual(run.verdicts(), {"good/stays[W=2]": "passed"}, run.text())

    @unittest.skipUnless(HAS_NETWORKS, "this user has no namespaces")
    def test_a_host_without_a_network_interface(self):
        command = ["unshare", "--map-root-user", "--net", launcher_option_test.LAUNCHER, "run", "good/meets[W=2]"]
        command += ["--worker", launcher_option_test.PROGRAM, "--out", f"{self.folder}/alone", *self.options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertRegex(run.stderr, r"rank \d has no address for TCP connections: no network interface is up on \S+;")


class FabricMpi(MessageFabric, unittest.TestCase):
    FABRIC = "mpi"

    def commands(self):
        return [f"{mpirun} -n {{ranks}}" for mpirun in MPIRUN]

    # -- Refused -------------------------------------------------------------------------------------------------------

    def assert_refused(self, run, says, code):
        self.assertEqual(run.code, code, run.text())
        self.assertIn(says, run.err)

    def test_without_a_launcher(self):
        run = Run(self.folder, None, "good", *self.options)
        self.assert_refused(run, "--fabric mpi without --launcher: MPI's own launcher has to start the ranks", 2)

    def test_a_launcher_that_is_not_of_mpi(self):
        for kind in ("torchrun", "srun"):
            run = Run(self.folder, foreign("--as", kind), "good/stays[W=2]", *self.options)
            self.assert_refused(run, "fabric mpi: no MPI has started this process", 3)

    def test_a_build_without_modules(self):
        self.without_modules()
        run = Run(self.folder, foreign(), "good/stays[W=2]", *self.options)
        self.assert_refused(run, "--fabric mpi: this build reaches no MPI library", 2)
        self.assertIn("libopenmpi-dev or libmpich-dev", run.err)


if __name__ == "__main__":
    launcher_option_test.LAUNCHER, launcher_option_test.PROGRAM = map(os.path.abspath, sys.argv[1:3])
    fabric, *MPIRUN = sys.argv[3:]
    unittest.main(argv=[sys.argv[0], {"tcp": "FabricTcp", "mpi": "FabricMpi"}[fabric]])
