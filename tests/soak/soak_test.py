#!/usr/bin/env python3
"""Runs a short soak. Then runs soaks of launchers that break a promise, which each soak must find.

    soak_test.py ROOT BUILD
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
del sys.argv[1:3]

# A launcher that changes its report afterwards. CHANGE is a statement about `report`.
LIAR = """#!/bin/sh
REAL "$@"
code=$?
while [ "$1" != --out ]; do shift; done
PYTHON - "$2/report.json" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
CHANGE
json.dump(report, open(sys.argv[1], "w"))
END
exit $code
"""


def soak(*options, build=BUILD, environment=None):
    command = [sys.executable, ROOT / "scripts/soak", "--build", build, *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


class Soak(unittest.TestCase):
    def test_runs_keep_their_promises(self):
        ended = soak("--runs", "80", "--minutes", "1")
        print(ended.stdout, file=sys.stderr)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("rank ended by", ended.stdout)

    def broken(self, launcher, *expected):
        """A soak of this launcher ends with 1, and prints these words and how to repeat the run."""
        with tempfile.TemporaryDirectory() as folder:
            programs = pathlib.Path(folder) / "bin"
            programs.mkdir()
            (programs / "trouble_program").symlink_to(BUILD / "bin/trouble_program")
            text = launcher.replace("REAL", str(BUILD / "bin/shardproof")).replace("PYTHON", sys.executable)
            (programs / "shardproof").write_text(text)
            (programs / "shardproof").chmod(0o755)
            options = ("--runs", "1", "--seed", "7", "--disturb", "launcher_pauses")
            ended = soak(*options, build=pathlib.Path(folder), environment={**os.environ, "TMPDIR": folder})
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        for words in (*expected, "to repeat: scripts/soak --seed 7 --minutes 5 --disturb launcher_pauses --only 0\n"):
            self.assertIn(words, ended.stdout)

    def test_a_lost_result_is_found(self):
        self.broken(LIAR.replace("CHANGE", 'del report["cases"][-1]'), "{'passed': 599}")

    def test_a_changed_result_is_found(self):
        change = 'report["cases"][5]["ranks"][1]["outcome"] = "skipped"'
        self.broken(LIAR.replace("CHANGE", change), "['passed', 'passed'], which the report lacks")

    def test_a_wrong_exit_code_is_found(self):
        self.broken("#!/bin/sh\nREAL \"$@\"\nexit 1\n", "exit code 1", "but nothing was broken")

    def test_a_process_that_lives_on_is_found(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        left = pathlib.Path(folder.name) / "pid"
        self.addCleanup(lambda: left.exists() and os.kill(int(left.read_text()), signal.SIGKILL))
        self.broken(f"#!/bin/sh\nsleep 1000 >/dev/null 2>&1 &\necho $! > {left}\nexec REAL \"$@\"\n", "live on")

    def test_numbers_without_a_meaning_are_refused(self):
        for options in (("--runs", "0"), ("--runs", "-1"), ("--minutes", "0"), ("--minutes", "nan"), ("--only", "-1")):
            ended = soak(*options)
            self.assertEqual(ended.returncode, 2, options)
            self.assertIn(f"argument {options[0]}: expected ", ended.stderr)

    def test_an_interrupted_soak_ends_its_runs_and_removes_their_folders(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, ROOT / "scripts/soak", "--build", BUILD, "--disturb", "rank_pauses"]
                one = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env={**os.environ, "TMPDIR": folder})
                one.stdout.readline()  # the seed
                while not list(pathlib.Path(folder).glob("*/*")):
                    time.sleep(0.01)
                one.send_signal(number)
                out, err = one.communicate(timeout=300)
                self.assertEqual(one.returncode, 128 + number, out + err)
                self.assertIn("interrupted", err)
                self.assertNotIn("Traceback", err)
                self.assertEqual(list(pathlib.Path(folder).glob("shardproof-soak-*")), [])


if __name__ == "__main__":
    unittest.main()
