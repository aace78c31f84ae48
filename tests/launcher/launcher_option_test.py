#!/usr/bin/env python3
"""Tests `shardproof run --launcher`: ranks that another launcher starts.

    launcher_option_test.py LAUNCHER PROGRAM      the built command, and the program with the trouble cases

A small launcher beside this file takes the part of mpirun, srun and torchrun."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FOREIGN = pathlib.Path(__file__).with_name("foreign_launcher.py")


def foreign(*options, size="{ranks}"):
    return " ".join([sys.executable, str(FOREIGN), "-n", str(size), *options])


def launchers():
    """Commands that start ranks: the small launcher, and a real one where it is installed."""
    mpirun = shutil.which("mpirun.openmpi")
    return [foreign()] + ([f"{mpirun} --allow-run-as-root --oversubscribe -n {{ranks}}"] if mpirun else [])


class Run:
    """A run that has ended."""

    def __init__(self, folder, launcher, *arguments, meanwhile=None, environment=None, worker=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "run"
        command = [LAUNCHER, "run", *arguments, "--worker", worker or PROGRAM, "--out", str(self.folder)]
        command += ["--launcher", launcher] if launcher else []
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={"PATH": os.environ["PATH"], **(environment or {})},
        )
        if meanwhile:
            meanwhile(process, self.folder)
        self.out, self.err = process.communicate(timeout=120)
        self.code = process.returncode
        report = self.folder / "report.json"
        self.report = json.loads(report.read_text()) if report.exists() else {"cases": [], "worlds": []}

    def verdicts(self):
        return {case["id"]: case["verdict"] for case in self.report["cases"]}

    def text(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"


def wait_for(found, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = found()
        if result:
            return result
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def waiting_ranks(run, count=2):
    """The processes of the ranks in the case that waits, once all have come to it, by rank."""
    found = {}
    for log in run.glob("worlds/*/logs/rank-*.err"):
        match = re.search(r"^here (\d+)$", log.read_text(), re.M)
        if match:
            found[int(log.stem.removeprefix("rank-"))] = int(match[1])
    return found if len(found) == count else None


def parent_of(process):
    return int(re.search(r"^PPid:\t(\d+)$", pathlib.Path(f"/proc/{process}/status").read_text(), re.M)[1])


def is_gone(process):
    try:
        return "\nState:\tZ" in pathlib.Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


class LauncherOption(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_under(self, launcher, *arguments, **rest):
        return Run(self.folder, launcher, *arguments, **rest)

    # -- Orderly runs --------------------------------------------------------------------------------------------------

    def test_the_report_is_the_same_as_without_a_launcher(self):
        cases = ("good", "many", "bad/check", "bad/killed", "bad/segfault", "bad/hangs", "--timeout", "1")
        with tempfile.TemporaryDirectory() as other:
            own = Run(other, None, *cases)
            under = self.run_under(foreign(), *cases)
            self.assertEqual(own.verdicts(), under.verdicts(), under.text())
            self.assertEqual(own.code, under.code, under.text())
            outcomes = [
                [[rank["outcome"] for rank in case["ranks"]] for case in run.report["cases"]] for run in (own, under)
            ]
            self.assertEqual(*outcomes)
            diff = subprocess.run(
                [LAUNCHER, "diff", str(own.folder), str(under.folder)], capture_output=True, text=True, timeout=60
            )
            self.assertEqual(diff.returncode, 0, diff.stdout + diff.stderr)

    def test_every_kind_of_variables(self):
        for kind in ("torchrun", "openmpi", "mpich", "srun"):
            with self.subTest(kind):
                run = self.run_under(foreign("--as", kind), "good/meets[W=3]", "good/stays[W=2]")
                self.assertEqual(run.code, 0, run.text())

    def test_which_variables_win(self):
        for kind, other in (("torchrun", "srun"), ("torchrun", "openmpi"), ("openmpi", "srun"), ("mpich", "srun")):
            with self.subTest(f"{kind} inside {other}"):
                run = self.run_under(foreign("--as", kind, "--also-as", other), "good/meets[W=3]")
                self.assertEqual(run.code, 0, run.text())

    def test_output_and_wrong_words_of_the_shell(self):
        run = self.run_under(
            foreign("--say", "'two words'"), "good/meets[W=3]", "--output", "1", environment={"TROUBLE": ""}
        )
        self.assertEqual(run.code, 0, run.text())
        self.assertEqual((run.folder / "worlds/0/logs/launcher.log").read_text(), "two words\n")

    def test_a_command_that_sets_variables_or_has_several_parts(self):
        says = "sh -c 'echo \"$SAID\"; exec \"$@\"' sh "
        variables = ("SAID=it ", " SAID='it' TOO=it ")
        for before in (*variables, "export SAID=it; ", "true && SAID=it ", "SAID=it\nexport SAID\n"):
            with self.subTest(before):
                run = self.run_under(before + says + foreign() + " \n", "good/meets[W=3]")
                self.assertEqual(run.code, 0, run.text())
                self.assertEqual((run.folder / "worlds/0/logs/launcher.log").read_text(), "it\n")

    def test_too_few_open_files(self):
        limited = (
            'ulimit -n {}; exec "$0" run good --ranks 3 --worker "$1" --out "$2" --overwrite --launcher "$3"'
        )
        out = str(pathlib.Path(self.folder) / "run")

        def run_with(files):
            return subprocess.run(
                ["bash", "-c", limited.format(files), LAUNCHER, PROGRAM, out, foreign()],
                capture_output=True,
                text=True,
                timeout=60,
            )

        too_few = run_with(89)
        self.assertEqual(too_few.returncode, 3)
        self.assertIn("3 ranks need 90 open files, the limit is 89: raise it with `ulimit -n 90`", too_few.stderr)
        self.assertEqual(run_with(90).returncode, 0)

    def test_the_time_to_start_ranks(self):
        run = self.run_under(foreign("--start", "1", "--linger", "60"), "good/stays[W=2]", "--join-timeout", "0.3s")
        self.assert_refused(run, r"the command has not started rank 1 within 0.3 s \(--join-timeout\)")
        slow = self.run_under("sleep 1; " + foreign(), "good/stays[W=2]", "--join-timeout", "40")
        self.assertEqual(slow.code, 0, slow.text())

    def test_a_command_for_one_size(self):
        run = self.run_under(foreign(size=2), "good", "--ranks", "2")
        self.assertEqual(run.code, 0, run.text())
        self.assertRegex(run.out, r"left out: \d+ cases? for .*3.* ranks, because the command of --launcher starts 2")
        self.assertTrue(all(case.endswith("[W=2]") for case in run.verdicts()))

    def test_the_end_of_each_rank_is_in_a_file(self):
        run = self.run_under(foreign(), "bad/segfault[W=2]")
        self.assertEqual(run.code, 4, run.text())
        end = json.loads((run.folder / "worlds/0/ranks/rank-1.end.json").read_text())
        self.assertEqual((end["signalled"], end["code"], end["asked_by"]), (True, signal.SIGSEGV, "none"))

    def test_the_command_to_repeat_a_case_names_the_launcher(self):
        run = self.run_under(foreign(), "bad/check[W=2]")
        self.assertRegex(run.out, r"again: (.|\n)*--launcher '.*foreign_launcher.py(.|\n)*\{ranks\}'")
        again = self.run_under(foreign(size=2), "bad/check[W=2]", "--ranks", "2")
        self.assertRegex(again.out, r"again: (.|\n)*--ranks(.|\n)*2")

    def test_retries_and_fail_fast(self):
        run = self.run_under(foreign(), "bad/check[W=2]", "--retries", "1")
        self.assertEqual(run.code, 1, run.text())
        self.assertEqual(len(run.report["worlds"]), 2)
        run = self.run_under(foreign(), "bad/check[W=2]", "many", "--fail-fast")
        self.assertEqual(run.code, 1, run.text())
        self.assertIn("not_run", run.verdicts().values())

    def test_a_command_that_ends_its_processes_when_one_fails(self):
        run = self.run_under(foreign("--kill-others"), "bad/exits[W=2,code=2]", "good/stays[W=2]")
        self.assertEqual(run.code, 4, run.text())
        self.assertEqual(run.verdicts(), {"bad/exits[W=2,code=2]": "crashed", "good/stays[W=2]": "passed"})

    def test_processes_that_ranks_leave_behind(self):
        run = self.run_under(foreign(), "loud/leaves_a_child[W=2]")
        self.assertEqual(run.code, 0, run.text())
        self.assertRegex(run.out, r"warning: world 0 left process \d+ \(.*\), started by rank \d, running")

    # -- Wrong commands ------------------------------------------------------------------------------------------------

    def assert_refused(self, run, says, code=3):
        self.assertEqual(run.code, code, run.text())
        self.assertRegex(run.err, says, run.text())

    def test_a_command_that_does_not_exist(self):
        run = self.run_under("no-such-mpirun -n {ranks}", "good")
        self.assert_refused(
            run,
            r"the command ended with exit code 127 before it started rank\S* 0.*\n"
            r"\(the command: no-such-mpirun -n \d; its output: .*launcher.log\)\nits last lines:\n.*not found",
        )

    def test_a_command_that_ends_at_once(self):
        run = self.run_under(foreign("--say", "'no slots'", "--exit", "7"), "good/stays[W=2]")
        self.assert_refused(run, r"ended with exit code 7 before it started ranks 0, 1\n.*\nits last lines:\nno slots")
        run = self.run_under("true {ranks}", "good/stays[W=2]")
        self.assert_refused(
            run,
            r"ended with exit code 0 before it started ranks 0, 1: it has to stay until its ranks have ended\n"
            r".*\nit printed nothing",
        )

    def test_a_command_that_starts_another_number_of_ranks(self):
        run = self.run_under(foreign(size=3), "good/stays[W=2]", "--ranks", "2")
        self.assert_refused(
            run,
            r"the command started 3 ranks, the world has 2 \(OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE on \S+\): "
            r"write \{ranks\} where the command takes the number of ranks, or give --ranks 3\n",
        )
        self.assertEqual(run.err.count("the command started 3 ranks"), 1, run.text())
        run = self.run_under(foreign(size=1), "good/stays[W=2]", "--ranks", "2")
        self.assert_refused(run, r"the command started 1 rank, the world has 2 .*or give --ranks 1\n")

    def test_a_command_that_starts_too_few(self):
        began = time.monotonic()
        run = self.run_under(foreign("--start", "1"), "good/stays[W=2]")
        self.assert_refused(run, r"the command has not started rank 1 within 30 s")
        self.assertLess(time.monotonic() - began, 60)

    def test_a_command_that_cannot_start_one_of_its_processes(self):
        run = self.run_under(foreign("--break-last", "--kill-others", "--say", "'no such node'"), "good/stays[W=2]")
        self.assert_refused(run, r"ended with exit code 1 before it started ranks? .*\n.*\nits last lines:\nno such")

    def test_a_command_that_starts_a_rank_twice(self):
        run = self.run_under(foreign("--twice"), "good/meets[W=3]")
        says = r"the command started two processes as rank 0 \(OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE on \S+\)\n"
        self.assert_refused(run, says)

    def test_variables_of_a_rank_that_the_run_passes_on(self):
        own = {"RANK": "1", "WORLD_SIZE": "2"}
        run = self.run_under(foreign(), "good/stays[W=2]", environment=own)
        self.assert_refused(
            run,
            r"two processes as rank 1 \(RANK and WORLD_SIZE on \S+\); unset RANK and WORLD_SIZE where you start "
            r"shardproof, because it passes them on\n",
        )

    def test_a_command_that_gives_no_ranks(self):
        run = self.run_under(foreign("--as", "none"), "good/stays[W=2]")
        self.assert_refused(run, r"the command started a process on \S+ without a rank in its environment \(RANK and")
        # The script of sbatch has some of Slurm's variables, and is no rank.
        run = self.run_under(foreign("--as", "batch"), "good/stays[W=2]")
        self.assert_refused(run, r"without a rank in its environment")

    def test_a_rank_that_torchrun_has_started_again(self):
        run = self.run_under(
            foreign("--as", "torchrun", "--set", "TORCHELASTIC_RESTART_COUNT=1"), "good/stays[W=2]"
        )
        self.assert_refused(run, r"torchrun has started rank \d again .* use torchrun --max-restarts 0")

    def test_options_that_do_not_fit(self):
        for options in (
            ("--jobs", "2"),
            ("--debug", "0"),
            ("--rank-wrapper", "nice"),
            ("--fabric", "thread"),
        ):
            with self.subTest(options):
                run = self.run_under(foreign(), "good", *options)
                self.assert_refused(run, rf"--launcher with {' '.join(options[:1])}", code=2)
        self.assert_refused(self.run_under("mpirun", "good"), r"--launcher 'mpirun': write \{ranks\} where", code=2)
        self.assert_refused(self.run_under(" ", "good"), r"--launcher: the command is empty", code=2)
        self.assert_refused(
            self.run_under(None, "good", "--host-silence", "2s"), r"--host-silence without --launcher", code=2
        )
        self.assert_refused(
            self.run_under(None, "good", "--join-timeout", "2s"), r"--join-timeout without --launcher", code=2
        )
        run = self.run_under(foreign(), "good", "--host-silence", "0")
        self.assert_refused(run, r"--host-silence 0: a time from 0\.001 to 10000000 seconds, such as 0\.5s", code=2)

    def test_a_wrong_spelling_of_the_number_of_ranks(self):
        for word in ("{rank}", "{Ranks}", "{ ranks }", "{n}", "{size}"):
            with self.subTest(word):
                run = self.run_under(foreign(size=f"'{word}'"), "good", "--ranks", "2")
                self.assert_refused(
                    run, rf"--launcher '.*': {word} means nothing here; write \{{ranks\}} where the command", code=2
                )
        # The shell's own words, and those of other programs.
        run = self.run_under(foreign("--say", "\"${ranks:-a} {print}\"", size=2), "good/stays[W=2]", "--ranks", "2")
        self.assertEqual(run.code, 0, run.text())

    def test_a_run_that_another_launcher_starts_once_for_each_rank(self):
        says = r"warning: mpirun started this command as rank 0 of 2, and each rank runs all cases"
        as_rank = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
        run = self.run_under(None, "good/stays[W=2]", environment=as_rank)
        self.assert_refused(run, says, code=0)
        for other in ({"OMPI_COMM_WORLD_RANK": "1"}, {"OMPI_COMM_WORLD_SIZE": "1"}):
            with self.subTest(other):
                run = self.run_under(None, "good/stays[W=2]", environment={**as_rank, **other})
                self.assertEqual((run.code, run.err), (0, ""))
        # Each rank may have a part of the cases of its own.
        run = self.run_under(None, "good/stays[W=2]", "--shard", "1/2", environment=as_rank)
        self.assertEqual(run.err, "")

    def test_the_guard_is_no_command_for_users(self):
        def call(*arguments, **variables):
            environment = {"PATH": os.environ["PATH"], **variables}
            return subprocess.run(
                [LAUNCHER, *arguments], capture_output=True, text=True, timeout=60, cwd=self.folder, env=environment
            )

        self.assertNotIn("guard", call("--help").stdout)
        self.assertNotIn("guard", call("no-such-command").stderr)
        self.assertIn("--join DIRECTORY", call("guard", "--help").stdout)
        without = call("guard")
        self.assertEqual(without.returncode, 2)
        self.assertIn("guard needs its argument", without.stderr)
        # The world of a run that is over has no launcher.
        run = self.run_under(foreign(), "good/stays[W=2]")
        late = call("guard", "--join", str(run.folder / "worlds/0"), RANK="0", WORLD_SIZE="2")
        self.assertEqual(late.returncode, 3)
        self.assertIn("cannot reach the launcher of this world from ", late.stderr)
        self.assertIn("is the run still going on?", late.stderr)

    def test_a_guard_trusts_no_key_that_others_may_read(self):
        run = self.run_under(foreign(), "good/stays[W=2]")
        key, other = run.folder / "worlds/0/key", run.folder / "other"

        def refusal():
            guard = subprocess.run(
                [LAUNCHER, "guard", "--join", str(run.folder / "worlds/0")],
                capture_output=True,
                text=True,
                timeout=60,
                env={"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "2"},
            )
            self.assertEqual(guard.returncode, 3, guard.stderr)
            return guard.stderr

        key.write_text("known to all")
        for mode in (0o644, 0o640, 0o620, 0o604):
            key.chmod(mode)
            self.assertIn(f"worlds/0/key: its mode is {mode:o}, so it is no secret", refusal())
        key.write_text("")
        key.chmod(0o600)
        self.assertIn("worlds/0/key: it is empty", refusal())
        key.rename(other)
        key.symlink_to(other)
        self.assertIn("worlds/0/key: it is a symbolic link", refusal())

    def test_a_guard_names_the_file_that_it_cannot_read(self):
        run = self.run_under(foreign(), "good/stays[W=2]")
        for name in ("guard.json", "plan.json"):
            (run.folder / "worlds/0" / name).write_text("{")
            guard = subprocess.run(
                [LAUNCHER, "guard", "--join", str(run.folder / "worlds/0")], capture_output=True, text=True, timeout=60
            )
            self.assertEqual(guard.returncode, 3, guard.stderr)
            self.assertIn(f"worlds/0/{name}: line 1, column 2: syntax error", guard.stderr)

    def test_a_guard_on_a_host_that_does_not_have_the_run_directory(self):
        hidden = f"{self.folder}/hidden"
        moved = f"sh -c 'exec \"$0\" guard --join {hidden}' {LAUNCHER}"
        run = self.run_under(f"{foreign('--kill-others')} {moved}", "good/stays[W=2]")
        says = rf"\S+ does not see {hidden}/plan.json: the run directory \(--out\) has to be at the same path on all"
        self.assert_refused(run, says)

    # -- Ends of guards, the command and the launcher ---------------------------------------------------------

    def waits(self, launcher, meanwhile):
        """The case that waits, a case after it, and what happens meanwhile to the processes of the waiting ranks."""

        def act(process, run):
            self.ranks = wait_for(lambda: waiting_ranks(run))
            self.guards = {rank: parent_of(pid) for rank, pid in self.ranks.items()}
            meanwhile(process)

        run = self.run_under(launcher, "bad/waits[W=2]", "good/stays[W=2]", "--timeout", "60", meanwhile=act)
        for process in [*self.ranks.values(), *self.guards.values()]:
            wait_for(lambda: is_gone(process))
        return run

    def assert_crashed(self, run, says):
        self.assertEqual(run.code, 4, run.text())
        self.assertEqual(run.verdicts(), {"bad/waits[W=2]": "crashed", "good/stays[W=2]": "passed"})
        self.assertRegex(re.sub(r"\n *", " ", run.out), says)

    def test_a_killed_rank(self):
        for launcher in launchers():
            with self.subTest(launcher):
                run = self.waits(launcher, lambda _: os.kill(self.ranks[1], signal.SIGKILL))
                self.assert_crashed(run, r"rank 1 died by signal 9 \(SIGKILL\) in bad/waits")

    def test_a_killed_guard(self):
        for launcher in [*launchers(), foreign("--kill-others")]:
            with self.subTest(launcher):
                run = self.waits(launcher, lambda _: os.kill(self.guards[1], signal.SIGKILL))
                self.assert_crashed(run, r"rank 1 died by signal 9 \(SIGKILL, because its guard ended\) in bad/waits")

    def test_a_guard_that_is_killed_after_its_rank_was_released(self):
        """mpirun of MPICH kills all guards when one is lost. A rank that was released before did not die in a case."""

        def kill(_):
            os.kill(self.guards[0], signal.SIGSTOP)  # it does not see that its rank leaves
            os.kill(self.guards[1], signal.SIGKILL)
            stream = next(pathlib.Path(self.folder).glob("*/run/worlds/0/ranks/rank-0.jsonl"))
            wait_for(lambda: '"released"' in stream.read_text())
            os.kill(self.guards[0], signal.SIGKILL)

        run = self.waits(foreign(), kill)
        self.assert_crashed(run, r"rank 1 died by signal 9 \(SIGKILL, because its guard ended\) in bad/waits")
        self.assertNotRegex(run.out, r"EVIDENCE|rank 0 (died|was killed)")

    def test_a_guard_that_is_asked_to_end(self):
        for launcher in launchers():
            with self.subTest(launcher):
                run = self.waits(launcher, lambda _: os.kill(self.guards[1], signal.SIGTERM))
                self.assert_crashed(run, r"rank 1 died by signal 15 \(SIGTERM, sent to its guard\)")

    def test_a_killed_process_between_the_command_and_a_guard(self):
        between = foreign("sh", "-c", "'\"$@\"; exit $?'", "sh")
        run = self.waits(between, lambda _: os.kill(parent_of(self.guards[1]), signal.SIGKILL))
        self.assert_crashed(
            run, r"rank 1 died by signal 9 \(SIGKILL, because the process that started its guard ended\)"
        )

    def test_a_killed_command(self):
        def kill(_):
            os.kill(parent_of(self.guards[0]), signal.SIGKILL)

        says = r"rank \d died by signal 9 \(SIGKILL, because the command of --launcher ended with signal 9 \(SIGKILL"
        for launcher in launchers():
            with self.subTest(launcher):
                self.assert_crashed(self.waits(launcher, kill), says)

    def test_a_killed_launcher(self):
        for launcher in launchers():
            with self.subTest(launcher):
                run = self.waits(launcher, lambda process: process.kill())
                self.assertEqual(run.code, -signal.SIGKILL)
                merge = [LAUNCHER, "merge", str(run.folder)]
                merged = subprocess.run(merge, capture_output=True, text=True, timeout=60)
                self.assertEqual(merged.returncode, 5, merged.stdout + merged.stderr)

    def test_an_interrupted_launcher(self):
        for launcher in [*launchers(), foreign("--ignore-terminate")]:
            with self.subTest(launcher):
                began = time.monotonic()
                run = self.waits(launcher, lambda process: process.send_signal(signal.SIGINT))
                self.assertEqual(run.code, 130, run.text())
                self.assertLess(time.monotonic() - began, 30)

    def test_a_command_that_does_not_end(self):
        began = time.monotonic()
        run = self.run_under(foreign("--linger", "600", "--ignore-terminate"), "good/stays[W=2]")
        self.assertEqual(run.code, 0, run.text())
        self.assertLess(time.monotonic() - began, 60)

    def test_stacks_of_a_rank_that_hangs(self):
        run = self.run_under(foreign(), "bad/hangs[W=2]", "--timeout", "1")
        self.assertEqual(run.code, 4, run.text())
        self.assertTrue((run.folder / "worlds/0/evidence/rank-1.stacks").exists())
        self.assertIn("State:", (run.folder / "worlds/0/evidence/rank-1.status").read_text())


if __name__ == "__main__":
    LAUNCHER, PROGRAM = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
