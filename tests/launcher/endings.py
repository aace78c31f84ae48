#!/usr/bin/env python3
"""Tries every way in which a rank, a case or a run can end, and finds the verdict, the exit code and the message.

    endings.py LAUNCHER PROGRAM PAGE.md       tests that each way ends as the table of the page says
    endings.py LAUNCHER PROGRAM --launcher COMMAND [--fabric mpi|tcp] [--short]
                                              tests the same for ranks that this command starts; --short: only ways that
                                              a fabric can change
    endings.py LAUNCHER PROGRAM --table       prints the table, with the times that it measures
"""
import concurrent.futures
import contextlib
import dataclasses
import datetime
import itertools
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

HEADINGS = "| what ends, and how | verdict | exit code | message | peers free after | evidence |"
SIDE_BY_SIDE = 8  # most of the time is spent waiting for ranks that do not come
SHORT = False
UNDER = ()  # the options for the launcher that starts the ranks; empty: shardproof does
ALL_WELL = {"good/stays[W=2]": "passed", "many/rounds[W=2,n=0]": "passed"}


@dataclasses.dataclass
class Way:
    what: str
    case: str  # the one that ends so; empty: it is the run that does
    verdict: str  # of that case
    code: int
    says: str  # a regular expression for the reported text
    options: tuple = ()
    trouble: str = ""
    prelude: str = ""
    signal: int = 0  # to the launcher, as soon as the ranks wait
    others: str = "passed"  # the verdict of the other cases
    clock_set_back: bool = False  # for the launcher and its ranks, by an hour whenever they look at it
    elsewhere: str = ""  # a case of a world of another size, which passes
    processes: int = 0  # that its user may have, the launcher among them; 0: any number
    stack: str = ""  # a regular expression for the text about the stack of rank 1

    def fits_a_launcher(self):
        """Whether another launcher can start the ranks. They are no copies, no threads, and have no wrapper."""
        words = ("thread", "warm", "--rank-wrapper")
        return not (self.processes or self.prelude or any(word in self.options for word in words))

    def concerns_fabric(self):
        """Whether ranks wait for messages of a rank that ends or hangs. message_fabrics_test.py has failing cases."""
        return self.case.startswith(("bad/", "dies/", "hang/", "fails/gives_up"))

    def waits_longest(self):
        """For the time that ranks have to join and to leave their world."""
        return "in the first world" in self.trouble or self.trouble == "never leaves"


def dies(what, case, says, **rest):
    return Way(what, case, "crashed", 4, says, **rest)


def crashes(what, name, number, stack, **rest):
    case = f"crash/{name}[W=2]"
    return dies(what, case, rf"^rank 1 died by signal {number} \(.*\) in {re.escape(case)}", stack=stack, **rest)


def fails(what, case, verdict, says, code=1, **rest):
    return Way(what, case, verdict, code, says, **rest)


def hangs(what, case, says, options=("--timeout", "1"), **rest):
    return Way(what, case, "hung", 4, says, options=options, **rest)


WAYS = [
    # Ranks that end in the middle of a case
    dies(
        "killed by SIGKILL",
        "bad/killed[W=2]",
        r"^rank 1 died by signal 9 \(SIGKILL\) in bad/killed\[W=2\] before its first collective",
        stack=r"no stack of rank 1: no process can handle signal 9 \(SIGKILL\) ",
    ),
    dies(
        "a segmentation fault, after the rank has replaced the handler",
        "bad/segfault[W=2]",
        r"^rank 1 died by signal 11 \(SIGSEGV\) in bad/segfault",
        stack=r"no stack of rank 1: the rank could not save it. Other code may have replaced the handler of signal 11",
    ),
    crashes("a write to null", "writes_to_null", 11, r"#0 +crashes::write_to_null\(\) at \S*crashes.cpp:\d+ "),
    crashes(
        "a call of null",
        "calls_null",
        11,
        r"#0 +0x0, where the rank has no code #1 +crashes::call_null\(\) at \S*crashes.cpp:\d+ ",
    ),
    crashes("a broken heap", "corrupts_the_heap", 6, r"#\d+ +crashes::corrupt_the_heap\(\) at \S*crashes.cpp:\d+ "),
    crashes(
        "a system call that a filter refuses",
        "makes_a_refused_call",
        31,
        r"#\d+ +crashes::make_a_refused_call\(\) at \S*crashes.cpp:\d+ ",
    ),
    crashes(
        "endless recursion",
        "overflows_its_stack",
        11,
        r"#0 +crashes::call_itself\(int\) at \S*crashes.cpp:\d+ "
        r"#1 +crashes::call_itself\(int\) at \S*crashes.cpp:\d+, \d+ times ",
    ),
    crashes(
        "a crash, after the stack was overwritten",
        "overwrites_its_callers",
        11,
        r"#0 +crashes::write_to_null\(\) at \S*crashes.cpp:\d+ "
        r"#1 +crashes::overwrite_its_callers\(\) at \S*crashes.cpp:\d+ ",
    ),
    crashes(
        "a crash in a signal handler",
        "in_a_signal_handler",
        11,
        r"#0 +crashes::write_to_null\(\) at .* #1 +crashes::handle_alarm\(int\) at .*#\d+ +ranked_test_case_",
    ),
    crashes(
        "a crash in a thread that the rank started",
        "in_a_thread",
        11,
        r"which the program started #0 +crashes::write_to_null\(\) at \S*crashes.cpp:\d+ ",
    ),
    crashes(
        "endless recursion in a thread that the rank started",
        "overflows_the_stack_of_a_thread",
        11,
        r"no stack of rank 1: the rank could not save it. .* a thread that the program started has used up",
    ),
    crashes(
        "a crash after a child's crash",
        "in_a_child_first",
        11,
        r"#0 +crashes::write_to_null\(\) at \S*crashes.cpp:\d+ ",
    ),
    crashes(
        "a crash of a rank that hangs as it saves its stack",
        "in_a_rank_that_cannot_write",
        11,
        r"no stack of rank 1: the rank had no time or no memory to save it |"
        r"#0 +crashes::write_to_null.* this kernel has no listener for system calls",
    ),
    crashes(
        "a crash that other code handles",
        "writes_to_null",
        11,
        r"no stack of rank 1: the rank has no handler for signal 11 \(SIGSEGV\): "
        r"other code handled it before the rank could: trouble_program ",
        trouble="handles its crashes",
    ),
    dies(
        "a crash of a rank that is a thread",
        "crash/writes_to_null[W=2]",
        r"^the process of all ranks died by signal 11 \(SIGSEGV\) while rank 1 was running",
        stack=r"#0 +crashes::write_to_null\(\) at \S*crashes.cpp:\d+ ",
        options=("--fabric", "thread"),
    ),
    crashes(
        "a crash, a copy",
        "writes_to_null",
        11,
        r"#0 +crashes::write_to_null\(\) at \S*crashes.cpp:\d+ ",
        options=("--subject", "warm"),
    ),
    crashes(
        "a crash under a command that starts the rank",
        "writes_to_null",
        11,
        r"#0 +crashes::write_to_null\(\) at \S*crashes.cpp:\d+ ",
        options=("--rank-wrapper", "nice"),
    ),
    dies("abort()", "dies/aborts[W=2]", r"^rank 1 died by signal 6 \(SIGABRT\) in dies/aborts"),
    dies(
        "an exception in a thread that the rank started",
        "dies/throws_in_a_thread[W=2]",
        r"^rank 1 died by signal 6 \(SIGABRT\)",
    ),
    dies("_exit(0)", "bad/exits[W=2,code=0]", r"^rank 1 exited with code 0 in bad/exits"),
    dies(
        "exit(0), with all destructors",
        "dies/leaves_main_behind[W=2]",
        r"^rank 1 exited with code 0 in dies/leaves_main_behind",
    ),
    dies("the exit code of bad arguments", "bad/exits[W=2,code=2]", r"^rank 1 exited with code 2 in bad/exits"),
    dies(
        "the exit code of a rank that cannot join", "bad/exits[W=2,code=3]", r"^rank 1 exited with code 3 in bad/exits"
    ),
    dies("rank 0 itself", "dies/as_rank_0[W=3]", r"^rank 0 died by signal 9 \(SIGKILL\) in dies/as_rank_0"),
    dies(
        "inside a collective",
        "dies/inside_a_collective[W=3]",
        r"^rank 1 died by signal 14 \(SIGALRM\) in dies/inside_a_collective\[W=3\] inside barrier #0 in group world",
        stack=r"no stack of rank 1: stacks are not saved for signal 14 \(SIGALRM\) ",
    ),
    dies(
        "after its last collective",
        "dies/after_its_last_collective[W=2]",
        r"^rank 1 died by signal 9 \(SIGKILL\) in dies/after_its_last_collective\[W=2\] after barrier #0 in group "
        r"world",
    ),
    dies(
        "all ranks at once",
        "dies/all_at_once[W=3]",
        r"^rank [012] died by signal 9 \(SIGKILL\) in dies/all_at_once\[W=3\] ",
    ),
    # Cases that fail while their ranks live
    fails("a failed CHECK on one rank", "fails/one_passes[W=2]", "failed", r"^rank\.index\(\) == 0$"),
    fails(
        "a failed REQUIRE while the others wait", "fails/requires[W=2]", "failed", r"^rank\.world\(\)\.size\(\) == 3$"
    ),
    fails("an exception", "fails/throws[W=2]", "error", r"^out of paper$"),
    fails(
        "a thrown object that is not an exception", "fails/throws_no_exception[W=2]", "error", r"^Unknown exception$"
    ),
    fails(
        "no assertion",
        "fails/checks_nothing[W=2]",
        "error",
        r"^no assertion: a case that checks nothing proves nothing$",
    ),
    fails(
        "different sizes",
        "fails/asks_for_another_size[W=2]",
        "failed",
        r"^group world, call #0: rank 0 asks for all_reduce of 3 f32 \(sum\), rank 1 for all_reduce of 4 f32 \(sum\)$",
    ),
    fails(
        "different collectives",
        "fails/asks_for_another_collective[W=2]",
        "failed",
        r"^group world, call #0: rank 0 asks for barrier, rank 1 for all_reduce of 3 f32 \(sum\)$",
    ),
    fails(
        "ranks that wait for each other",
        "fails/waits_in_a_circle[W=2]",
        "error",
        r"every rank waits and no rank can continue: rank 0 in barrier #0 in group left for rank 1, rank 1 in barrier "
        r"#0 in group right for rank 0$",
    ),
    fails(
        "a rank that ends the case while others wait for it",
        "fails/leaves_the_others_waiting[W=3]",
        "error",
        r"^the ranks made different numbers of calls .*every rank waits and no rank can continue: rank 0 in barrier #0 "
        r"in group world for rank 2",
    ),
    fails(
        "a body that swallows its release",
        "fails/swallows_its_release[W=2]",
        "failed",
        r"^rank\.world\(\)\.size\(\) == 3$",
    ),
    fails(
        "a rank that comes too late",
        "fails/gives_up_waiting[W=2]",
        "error",
        r"rank 0: barrier #0 in group world: after 3(\.\d+)? s there is no sign of rank 1 \(no call yet\)"
        r"(; .* TCP .*)?$",
    ),
    fails(
        "device memory that its subject keeps",
        "fails/is_not_quiet_at_its_end[W=2]",
        "failed",
        r'^not quiet at its end: the subject left 64 bytes of device memory alive, in 1 buffer: parameter '
        r'"hoarded" of 64 bytes$',
    ),
    fails(
        "a thread that outlives its case",
        "leaves/a_thread[W=2]",
        "failed",
        r'^not quiet at its end: thread (\d+|…) "late"( \(in \w+\))? still runs: join it before the body ends',
    ),
    fails(
        "a resource limit that stays changed",
        "leaves/a_limit[W=2]",
        "failed",
        r"^not quiet at its end: the soft limit RLIMIT_AS is 1048576, and was unlimited: restore this",
    ),
    fails(
        "a signal that stays blocked",
        "leaves/a_blocked_signal[W=2]",
        "failed",
        r"^not quiet at its end: signal 10 \(SIGUSR1\) is blocked in the rank's thread",
    ),
    fails(
        "another working directory",
        "loud/changes_directory[W=2]",
        "failed",
        r"^not quiet at its end: the working directory is /, and was ",
    ),
    fails(
        "a SECTION",
        "fails/has_a_section[W=2]",
        "error",
        r"^SECTION \"of its own\" at .*a ranked case runs its body once",
    ),
    fails("a GENERATE", "fails/has_a_generator[W=2]", "error", r"^GENERATE: a ranked case runs its body once"),
    fails("a skip that one rank asks for", "skip/asked_by_one[W=3]", "skipped", r"^no paper$", code=0),
    fails("a skip while another rank fails", "skip/while_another_fails[W=2]", "failed", r"^false$"),
    # Ranks that do not come to an end
    hangs(
        "a loop without a collective",
        "hang/spins[W=2]",
        r"^rank 1 never entered barrier #0 in group world \(rank 0 has waited for .* s\); it is in "
        r"hang/spins\[W=2\] before its first collective",
    ),
    hangs("asleep", "bad/hangs[W=2]", r"^rank 1 never entered barrier #0 in group world"),
    hangs(
        "asleep, and ignores SIGTERM", "hang/ignores_sigterm[W=2]", r"^rank 1 never entered barrier #0 in group world"
    ),
    hangs(
        "asleep, with a handler for SIGTERM",
        "hang/exits_when_asked[W=2]",
        r"^rank 1 never entered barrier #0 in group world",
    ),
    hangs(
        "stopped by SIGSTOP",
        "hang/stopped[W=2]",
        r"^rank 1 never entered all_reduce #1 of 3 f32 \(sum\) \"after the stop\" in group world",
    ),
    hangs(
        "inside a collective that all have entered",
        "hang/inside_a_collective[W=3]",
        r"^rank 1 is in hang/inside_a_collective\[W=3\] inside barrier #0 in group world, which all ranks entered "
        r".* s ago$",
        options=("--timeout", "2"),
    ),
    hangs(
        "in a destructor",
        "hang/in_a_destructor[W=3]",
        r"^rank 2 never reached the end of the case \(ranks 0, 1 have waited for .* s\)",
    ),
    hangs(
        "calls without an end",
        "hang/slow_not_stuck[W=2]",
        r"in hang/slow_not_stuck\[W=2\] .*; it has made progress since .*: slow, not stuck",
    ),
    hangs(
        "longer than the time limit of its case",
        "hang/soon_told[W=2]",
        r"^rank 0 never reached the end of the case",
        options=(),
    ),
    # Before the first case, and after the last one
    Way(
        "never joins its world",
        "",
        "hung",
        3,
        r"^rank 1 did not join its world within 30 s$",
        trouble="never joins in the first world",
        others="not_run",
        elsewhere="good/meets[W=3]",
    ),
    Way(
        "stopped by SIGSTOP before it joins",
        "",
        "hung",
        3,
        r"^rank 1 did not join its world within 30 s$",
        trouble="stops in the first world",
        others="not_run",
        elsewhere="good/meets[W=3]",
    ),
    Way(
        "does not end after its last case",
        "",
        "passed",
        4,
        r"^rank 1 has left its world, and its process does not end$",
        trouble="never leaves",
        options=("--timeout", "2"),
    ),  # the launcher looks at its ranks as often as that asks for
    Way(
        "cannot join its world",
        "",
        "not_run",
        3,
        r"^rank 1 ended with exit code 3 before its first case:\nno place for me here",
        trouble="refuses to join",
        others="not_run",
    ),
    Way(
        "exit(0) before it joins",
        "",
        "crashed",
        3,
        r"^rank 1 ended with exit code 0 before its first case and printed nothing",
        trouble="vanishes",
        others="not_run",
    ),
    Way(
        "abort() before it joins",
        "",
        "crashed",
        4,
        r"^rank 1 died by signal 6 \(SIGABRT\) before its first case",
        trouble="crashes early",
        others="not_run",
    ),
    Way(
        "has other cases than its peers",
        "",
        "not_run",
        3,
        r"the ranks of this world disagree: .*cases: rank 0 has",
        trouble="has another list",
        others="not_run",
    ),
    Way(
        "a segmentation fault after its last case",
        "",
        "passed",
        4,
        r"^rank 1 died by signal 11 \(SIGSEGV\) after it had left its world",
        trouble="dies at its end",
    ),
    Way(
        "an exit code after its last case",
        "",
        "passed",
        4,
        r"^rank 1 exited with code 7 after it had left its world",
        trouble="fails at its end",
    ),
    # Evidence that is not what it should be
    Way(
        "a failure in its stream, and exit code 0",
        "lies/fails_and_exits_well[W=2]",
        "failed",
        1,
        r"^rank\.index\(\) == 0$",
    ),
    Way("a stream that is cut", "lies/cuts_its_stream[W=2]", "disagreed", 5, r"^rank 1 has a corrupt stream: line \d+"),
    Way(
        "a missing stream",
        "lies/removes_its_stream[W=2]",
        "disagreed",
        5,
        r"^rank 1 has no valid stream: ",
        others="disagreed",
    ),
    Way(
        "a stream of another world",
        "lies/has_an_old_stream[W=2]",
        "disagreed",
        5,
        r"^rank 1 has a stream of another world",
        others="disagreed",
    ),
    Way(
        "a line after the end of its stream",
        "lies/writes_after_its_end[W=2]",
        "passed",
        5,
        r"^rank 1 has a corrupt stream: line \d+",
    ),
    Way(
        "all its descriptors closed",
        "loud/closes_its_descriptors[W=2]",
        "crashed",
        4,
        r"^rank 1 exited with code 5 at the end of loud/closes_its_descriptors\[W=2\] after barrier #0 in group world",
    ),
    # Ranks that are copies of a process which has prepared their subject
    dies(
        "killed by SIGKILL, a copy",
        "bad/killed[W=2]",
        r"^rank 1 died by signal 9 \(SIGKILL\) in bad/killed\[W=2\] before its first collective",
        options=("--subject", "warm"),
    ),
    hangs(
        "asleep, a copy",
        "bad/hangs[W=2]",
        r"^rank 1 never entered barrier #0 in group world",
        options=("--timeout", "1", "--subject", "warm"),
    ),
    Way(
        "the process that ranks are copies of, killed",
        "dies/without_its_original[W=2]",
        "passed",
        3,
        r"^rank 0 of 2 could not be started: process (\d+|…), which ranks are copied from, ended with signal 9 "
        r"\(SIGKILL\)",
        options=("--subject", "warm", "--isolate"),
        others="not_run",
    ),
    # Disorder that costs nothing
    Way("three megabytes on standard error", "loud/floods[W=2]", "passed", 0, ""),
    Way("a gigabyte on standard error", "loud/floods_a_gigabyte[W=2]", "passed", 0, ""),
    Way("a child that stays in its group", "loud/forks[W=2]", "passed", 0, ""),
    Way("a child that stays in its own session", "loud/leaves_a_child[W=2]", "passed", 0, ""),
    Way("a daemon without its rank's environment", "loud/leaves_a_daemon[W=2]", "passed", 0, ""),
    Way("a forked child that comes back from the body", "loud/comes_back_twice[W=2]", "passed", 0, ""),
    Way("a wall clock that is set back", "good/meets[W=2]", "passed", 0, "", clock_set_back=True),
    # The launcher's own end
    Way(
        "Ctrl-C",
        "bad/waits[W=2]",
        "not_run",
        130,
        r"interrupted; the report holds what was done until then",
        signal=signal.SIGINT,
        options=("--timeout", "60"),
    ),
    Way(
        "SIGTERM to the launcher",
        "bad/waits[W=2]",
        "not_run",
        143,
        r"interrupted; the report holds what was done until then",
        signal=signal.SIGTERM,
        options=("--timeout", "60"),
    ),
    Way(
        "SIGKILL to the launcher, then merge",
        "bad/waits[W=2]",
        "not_run",
        5,
        r"has a stream without an end \(it stops in .*\), and no launcher saw how its process ended",
        signal=signal.SIGKILL,
        options=("--timeout", "60"),
    ),
    Way(
        "too few file descriptors",
        "",
        "not_run",
        3,
        r"open files|Too many open files",
        prelude="ulimit -n 12;",
        others="not_run",
    ),
    Way(
        "no process for a rank",
        "",
        "not_run",
        3,
        r"rank 1 was not started: cannot start .*ulimit -u.*Resource temporarily unavailable",
        processes=2,
        others="not_run",
    ),
    Way(
        "no thread for a rank",
        "",
        "not_run",
        3,
        r"cannot start the thread of rank 1 of 2",
        processes=3,
        options=("--fabric", "thread"),
        others="not_run",
    ),
]


class Outcome:
    """The outcome of one way: a run in its own directory, and its report."""

    users = itertools.count(60000 + os.getpid() * 4 % 5000)

    def __init__(self, way, folder):
        self.folder = pathlib.Path(folder)
        run = self.folder / "run"
        cases = [case for case in (way.case, way.elsewhere) if case]
        command = [LAUNCHER, "run", *cases, *ALL_WELL, *way.options, *UNDER, "--worker", PROGRAM, "--out", str(run)]
        environment = {"PATH": os.environ["PATH"], "TROUBLE": way.trouble}
        user = {}
        if way.clock_set_back:
            environment["LD_PRELOAD"] = str(pathlib.Path(PROGRAM).with_name("libclock_set_back.so"))
        if way.processes:
            command, user = self.as_another_user(command, way.processes)
        elif way.prelude:
            command = ["/bin/bash", "-c", way.prelude + ' exec "$0" "$@"', *command]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder, **user
        )
        if way.signal:
            self.wait_for(run)
            process.send_signal(way.signal)
        self.out, self.err = process.communicate(timeout=120)
        self.code = process.returncode
        if way.signal == signal.SIGKILL:
            merged = subprocess.run([LAUNCHER, "merge", str(run)], capture_output=True, text=True, timeout=60)
            self.code, self.out, self.err = merged.returncode, merged.stdout, merged.stderr
        report = run / "report.json"
        self.report = json.loads(report.read_text()) if report.exists() else {"cases": [], "worlds": []}
        self.run = run

    def as_another_user(self, command, processes):
        """The command for a user who has no other processes, and what Popen needs for it: the limit is one of users,
        and root has none."""
        user = next(self.users)
        os.chown(self.folder, user, user)
        own = {
            program: shutil.copy(program, self.folder) for program in (LAUNCHER, PROGRAM)
        }  # there this user may read them
        limited = [
            "/bin/bash",
            "-c",
            f'ulimit -u {processes}; exec "$0" "$@"',
            *(own.get(word, word) for word in command),
        ]
        return limited, {"user": user, "group": user, "extra_groups": []}

    @staticmethod
    def wait_for(run):
        """Until both ranks of the case that waits have come to it."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            logs = list(run.glob("worlds/*/logs/rank-*.err"))
            if sum("here " in log.read_text() for log in logs) == 2:
                return
            time.sleep(0.01)
        raise AssertionError("no rank came to the case that waits")

    def case(self, case):
        return next((result for result in self.report["cases"] if result["id"] == case), {"verdict": "missing"})

    def messages(self, way):
        """The sentences that explain this end, the best first."""
        result = self.case(way.case)
        sentences = []
        for world in self.report["worlds"]:
            sentences += [world["explanation"]] if "explanation" in world else []
            sentences += world["defects"]
        for failure in result.get("failures", []):
            sentences.append(failure["expression"] or failure["expansion"])
        sentences += [rank["reason"] for rank in result.get("ranks", []) if rank.get("reason")]
        sentences += [line.removeprefix("shardproof: ") for line in [self.err.strip()] if line]
        return sentences

    def freed_ms(self):
        """Milliseconds from the guilty rank's act until the last other rank left its wait; None if no rank waited."""
        gone, free = [], []
        for log in self.run.glob("worlds/*/logs/rank-*.err"):
            for line in log.read_text(errors="replace").splitlines():
                word, _, number = line.partition(" ")
                if word in ("gone", "free") and number.isdigit():
                    (gone if word == "gone" else free).append(int(number))
        return (max(free) - max(gone)) / 1e6 if gone and free else None

    def kept(self):
        files = sorted({re.sub(r"rank-\d+", "rank-N", file.name) for file in self.run.glob("worlds/*/evidence/*")})
        return ", ".join(files)


def shown(sentence):
    """One line, without what differs from run to run."""
    line = " ".join(sentence.split("\n(its output")[0].split())
    line = re.sub(r"(waited for|entered) \d+\.\d s", r"\1 … s", line)
    line = re.sub(r"(?<= )/\S*/", "", line)
    line = re.sub(r"\b[0-9a-f]{32}\b", "…", line)
    line = re.sub(r"\b(process|thread) \d+", r"\1 …", line)
    return line if len(line) <= 230 else line[:229] + "…"


def best(way, outcome):
    for sentence in outcome.messages(way):
        if way.says and re.search(way.says, sentence, re.MULTILINE):
            return sentence
    return ""


def table():
    rows = [HEADINGS, "|---|---|---|---|---|---|"]
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            outcome = Outcome(way, folder)
            freed = outcome.freed_ms()
            sentence = shown(best(way, outcome)).replace("|", r"\|")
            rows.append(
                f"| {way.what} | {way.verdict} | {way.code} | {sentence} | "
                f"{'' if freed is None else f'{freed:.1f} ms'} | {outcome.kept()} |"
            )
    return "\n".join(rows)


class Endings(unittest.TestCase):
    def test_every_way_ends_as_it_should(self):
        with contextlib.ExitStack() as folders, concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            outcomes = {}
            ways = [
                way
                for way in WAYS
                if not (UNDER and not way.fits_a_launcher()) and not (SHORT and not way.concerns_fabric())
            ]
            for way in sorted(ways, key=Way.waits_longest, reverse=True):
                if not way.processes or os.geteuid() == 0:
                    outcomes[way.what] = pool.submit(Outcome, way, folders.enter_context(tempfile.TemporaryDirectory()))
            for way in ways:
                with self.subTest(way.what):
                    if way.what not in outcomes:
                        self.skipTest("only root can run something as a user who has no processes")
                    self.assert_ended_as_it_should(way, outcomes[way.what].result())

    def assert_ended_as_it_should(self, way, outcome):
        context = f"{outcome.out}\n{outcome.err}"
        self.assertEqual(outcome.code, way.code, context)
        first = way.case or ("good/stays[W=2]" if way.verdict in ("crashed", "hung") else "many/rounds[W=2,n=0]")
        self.assertEqual(outcome.case(first)["verdict"], way.verdict, context)
        for case in ALL_WELL:
            if way.case != case and not (way.case == "" and way.verdict not in ("passed", "not_run")):
                self.assertEqual(outcome.case(case)["verdict"], way.others, context)
        if way.elsewhere:
            self.assertEqual(outcome.case(way.elsewhere)["verdict"], "passed", context)
        if way.says:
            self.assertTrue(best(way, outcome), f"{outcome.messages(way)}\n{context}")
        if way.clock_set_back:
            self.assert_looked_at_the_clock(outcome, context)
        freed = outcome.freed_ms()
        if freed is not None and way.verdict != "hung" and "gives_up" not in way.case:
            self.assertLess(freed, 5000, context)  # a time that a busy machine cannot miss: speed is measured elsewhere
        if way.stack:
            self.assert_shows_stack(way, outcome.out)
        if way.verdict in ("crashed", "hung") and way.case:
            self.explained_again(outcome, way)

    def assert_looked_at_the_clock(self, outcome, context):
        """Else it was not set back."""
        started = datetime.datetime.strptime(outcome.report["run"]["started"], "%Y-%m-%dT%H:%M:%S%z")
        self.assertLess(started, datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=50), context)

    def explained_again(self, outcome, way):
        for world in outcome.run.glob("worlds/*/evidence/flight.json"):
            explained = subprocess.run(
                [LAUNCHER, "explain", str(world.parent)], capture_output=True, text=True, timeout=60
            )
            number = world.parent.parent.name
            text = re.sub(r"\n +", " ", explained.stdout)
            self.assertTrue(text.startswith(f"world {number}: "), text)
            self.assertIn(outcome.report["worlds"][int(number)]["explanation"], text)
            if way.stack:
                self.assert_shows_stack(way, explained.stdout)

    def assert_shows_stack(self, way, text):
        """A launcher without libdw says so. Long lines are wrapped."""
        if "built without libdw" not in text:
            self.assertRegex(re.sub(r"\n *", " ", text), way.stack)

    def test_the_document_has_a_row_for_every_way(self):
        page = DOCUMENT.read_text(encoding="utf-8")
        self.assertIn(f"\n{HEADINGS}\n", page)
        rows = re.findall(r"^\| (.*?) \| (\w+) \| (\d+) \| (.*?) \|", page, re.MULTILINE)
        self.assertEqual(
            [(row[0], row[1], int(row[2])) for row in rows], [(way.what, way.verdict, way.code) for way in WAYS]
        )
        for row, way in zip(rows, WAYS):
            if way.says and not row[3].endswith("…"):
                self.assertRegex(row[3], way.says.replace(r"\n", " "))


if __name__ == "__main__":
    LAUNCHER, PROGRAM = map(os.path.abspath, sys.argv[1:3])
    last = sys.argv[3]
    if last == "--table":
        print(table())
    elif last == "--launcher":
        words = 5 if sys.argv[5:6] != ["--fabric"] else 7
        UNDER = tuple(sys.argv[3:words])
        SHORT = sys.argv[words : words + 1] == ["--short"]
        words += SHORT
        unittest.main(argv=[sys.argv[0], "Endings.test_every_way_ends_as_it_should", *sys.argv[words:]])
    else:
        DOCUMENT = pathlib.Path(last)
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
