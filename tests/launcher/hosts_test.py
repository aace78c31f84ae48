#!/usr/bin/env python3
"""Tests `shardproof run --launcher` for ranks on several hosts. Two ranks are on each of the nodes n0 and n1, which are
names that Slurm would give: the launcher counts them as two hosts.

    hosts_test.py LAUNCHER PROGRAM tcp|MPIRUN [TEST...]      the built command and the program of the cases; messages
                                                             are over TCP, or of the Open MPI of this mpirun"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import launcher_option_test as one_host
from launcher_option_test import Run, foreign, is_gone, parent_of, wait_for

AFTER = "spread/after[W=4]"


def hosts(per_host=2):
    """A command that starts ranks on hosts that differ in name only."""
    if FABRIC == "tcp":
        return foreign("--as", "srun", "--per-host", str(per_host))
    name = f"n$((OMPI_COMM_WORLD_RANK / {per_host}))"
    # mpirun reads its own words; the wrapper is a script so that no shell has to read quotes twice.
    script = pathlib.Path(FOLDER) / f"on_host_{per_host}"
    if not script.exists():
        script.write_text(f'#!/bin/sh\nSLURMD_NODENAME="{name}" exec "$@"\n')
        script.chmod(0o755)
    return f"{MPIRUN} --allow-run-as-root --oversubscribe -n {{ranks}} {script}"


# Ranks with their own /dev/shm are on another host than the launcher, all on the same one. So shared memory reaches all
# of them. A container may deny its root namespaces.
HAS_NAMESPACES = os.geteuid() == 0 and subprocess.run(["unshare", "-mn", "true"], capture_output=True).returncode == 0


def own_memory(options="size=50%"):
    return f"sh -c 'mount -t tmpfs -o {options} none /dev/shm && exec \"$@\"' sh"


OWN_MEMORY = own_memory()


def on_another_host(memory="size=50%"):
    return f"unshare -m {own_memory(memory)} {foreign()}"


def ranks_with(run, case_id, outcome):
    case = next(case for case in run.report["cases"] if case["id"] == case_id)
    return [rank for rank, entry in enumerate(case["ranks"]) if entry["outcome"] == outcome]


def tcp_sockets(process):
    """The descriptors of the process's connections."""
    tables = [pathlib.Path(f"/proc/{process}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    nodes = {line.split()[9] for table in tables for line in table.splitlines()[1:]}
    for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
        found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        if found and found[1] in nodes:
            yield link.name


def left_by(run):
    """The directories of hosts that are left of a run."""
    plans = [json.loads(plan.read_text()) for plan in run.folder.glob("worlds/*/plan-*.json")]
    assert plans
    return [plan["rendezvous"] for plan in plans if os.path.exists(plan["rendezvous"])]


class Hosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_on_hosts(self, *arguments, launcher=None, **rest):
        fabric = () if launcher else ("--fabric", FABRIC)
        return Run(self.folder, launcher or hosts(), *arguments, *fabric, **rest)


class OneHost(Hosts):
    """Tests whose ranks exchange no messages: they are on one host, or the launcher refuses them."""

    def test_one_host_with_another_name_than_the_launcher_knows(self):
        run = self.run_on_hosts("spread/gathers", "--ranks", "2", launcher=foreign("--per-host", "2"))
        self.assertEqual(run.code, 0, run.text())

    def test_a_fabric_that_reaches_one_host(self):
        run = self.run_on_hosts(AFTER, launcher=foreign("--per-host", "2"))
        self.assertEqual(run.code, 3, run.text())
        says = r"ranks 0, 1 are on n0, ranks 2, 3 are on n1; the fabric shm reaches one host; use --fabric tcp or mpi"
        self.assertRegex(run.err, says)
        self.assertEqual(list(run.folder.glob("worlds/0/ranks/*.jsonl")), [], "a rank began")

    @unittest.skipUnless(HAS_NAMESPACES, "this user has no namespaces")
    def test_hosts_of_one_name(self):
        each_with_its_own = f"{foreign()} unshare -m {OWN_MEMORY}"
        run = self.run_on_hosts("spread/gathers", "--ranks", "2", launcher=each_with_its_own)
        self.assertEqual(run.code, 3, run.text())
        name = os.uname().nodename
        self.assertIn(
            f"rank 0 is on {name}, rank 1 is on {name}, each with its own /dev/shm; the fabric shm reaches", run.err
        )

    @unittest.skipUnless(HAS_NAMESPACES, "this user has no namespaces")
    def test_all_ranks_on_one_other_host(self):
        cases = ("good", "many", "bad/check", "bad/killed", "bad/segfault", "bad/hangs", "--timeout", "1")
        trouble = ("--worker", str(pathlib.Path(PROGRAM).with_name("trouble_program")))
        with tempfile.TemporaryDirectory() as other:
            own = Run(other, None, *cases, worker=trouble[1])
            under = self.run_on_hosts(*cases, launcher=on_another_host(), worker=trouble[1])
            self.assertEqual(own.verdicts(), under.verdicts(), under.text())
            self.assertEqual(own.code, under.code, under.text())
            for folder in ("stacks", "status"):
                self.assertTrue(list(under.folder.glob(f"worlds/*/evidence/rank-1.{folder}")), folder)
            diff = subprocess.run(
                [LAUNCHER, "diff", str(own.folder), str(under.folder)], capture_output=True, text=True, timeout=60
            )
            self.assertEqual(diff.returncode, 0, diff.stdout + diff.stderr)

    @unittest.skipUnless(HAS_NAMESPACES, "this user has no namespaces")
    def test_memory_of_another_host_that_is_full_or_fills_up(self):
        # 3: inodes for a part of the lead guard's files, 9: for a part of the ranks' files
        for memory, worlds in (("size=40m", 2), ("size=40m,nr_inodes=3", 1), ("size=40m,nr_inodes=9", 2)):
            with self.subTest(memory), tempfile.TemporaryDirectory() as folder:
                run = Run(
                    folder,
                    f"env FILL=/dev/shm/filler {on_another_host(memory)}",
                    "good/meets[W=2]",
                    "loud/fills_shared_memory",
                    "many",
                    worker=str(pathlib.Path(PROGRAM).with_name("trouble_program")),
                )
                self.assertEqual(run.code, 0, run.text())
                self.assertEqual(set(run.verdicts().values()), {"passed"}, run.text())
                self.assertEqual(len(run.report["worlds"]), worlds, run.text())
                world = run.folder / "worlds" / str(worlds - 1)
                plan = json.loads((world / "plan-0.json").read_text())
                self.assertEqual(pathlib.Path(plan["rendezvous"]).parent, world.resolve())
                self.assertEqual(list(world.glob("shardproof-*")), [], "the directory of a host outlives its world")
                said = run.out + (world / "logs/launcher.log").read_text()
                self.assertIn(". Trying again with its shared memory in ", re.sub(r"\n *", " ", said))

    @unittest.skipUnless(HAS_NAMESPACES and shutil.which("ip"), "this user has no namespaces, or ip is missing")
    def test_a_host_without_network(self):
        def ip(*words):
            subprocess.run(["ip", *words], check=True, capture_output=True)

        name = f"sp{os.getpid()}"
        ip("netns", "add", name)
        self.addCleanup(ip, "netns", "delete", name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("address", "add", "10.231.7.1/30", "dev", name)
        ip("link", "set", name, "up")
        ip("-n", name, "address", "add", "10.231.7.2/30", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")

        def cut(process, run):
            self.ranks = wait_for(lambda: one_host.waiting_ranks(run, 2))
            ip("link", "set", name, "down")
            began = time.monotonic()
            wait_for(lambda: (run / "worlds/0/endings.json").exists())
            print(f"a host without network: its world was over after {time.monotonic() - began:.2f} s")
            ip("link", "set", name, "up")

        run = self.run_on_hosts(
            "bad/waits",
            "good/stays",
            "--timeout",
            "60",
            launcher=f"ip netns exec {name} {OWN_MEMORY} {foreign()}",
            worker=str(pathlib.Path(PROGRAM).with_name("trouble_program")),
            meanwhile=cut,
        )
        self.assertEqual(run.verdicts(), {"bad/waits[W=2]": "crashed", "good/stays[W=2]": "passed"}, run.text())
        says = r"rank 0 died by .*because host \S+ with ranks 0, 1 was lost: it sent nothing for 800 ms\)"
        self.assertRegex(re.sub(r"\n *", " ", run.out), says)
        for process in self.ranks.values():
            wait_for(lambda: is_gone(process))

    def test_a_case_for_two_hosts_is_skipped_on_one(self):
        run = self.run_on_hosts("spread/placed", launcher=foreign())
        self.assertEqual(run.verdicts(), {"spread/placed[W=4]": "skipped"}, run.text())
        self.assertIn("SKIP 1 case: its ranks must be on 2 hosts, and here they are on 1\n", run.out)


class SeveralHosts(Hosts):
    """Tests whose ranks exchange messages."""

    # -- Orderly runs --------------------------------------------------------------------------------------------------

    def test_the_report_is_the_same_as_on_one_host(self):
        cases = ("spread/gathers", "spread/fails", "spread/requires", AFTER, "--ranks", "2,4")
        with tempfile.TemporaryDirectory() as other:
            own = Run(other, None, *cases)
            self.assertEqual(own.code, 1, own.text())
            under = self.run_on_hosts(*cases)
            self.assertEqual(own.verdicts(), under.verdicts(), under.text())
            self.assertEqual(own.code, under.code, under.text())
            self.assertEqual(left_by(under), [])
        world = under.folder / "worlds/1"
        self.assertFalse((world / "key").exists(), "the key outlives its world")
        self.assertEqual(json.loads((world / "ranks/rank-3.end.json").read_text())["code"], 0)

    def test_the_report_says_where_each_rank_was(self):
        run = self.run_on_hosts("spread/placed", "spread/fails", "--max-skips", "0")
        self.assertEqual(run.verdicts(), {"spread/placed[W=4]": "passed", "spread/fails[W=4]": "failed"}, run.text())
        found = run.report["worlds"][0]["hosts"]
        self.assertEqual([(host["name"], host["ranks"]) for host in found], [("n0", [0, 1]), ("n1", [2, 3])])
        self.assertNotEqual(found[0]["id"], found[1]["id"])
        self.assertIn("; ranks 0, 1 on n0, ranks 2, 3 on n1\n", run.out)
        explained = subprocess.run([LAUNCHER, "explain", str(run.folder)], capture_output=True, text=True, timeout=60)
        for text in (run.out, explained.stdout):
            self.assertRegex(text, r"FAIL spread/fails\[W=4\] +rank 3 on n1,")
            self.assertIn("  hosts: ranks 0, 1 on n0, ranks 2, 3 on n1\n", text)

    # -- Cases that end badly ------------------------------------------------------------------------------------------

    def test_a_crash_on_another_host(self):
        run = self.run_on_hosts("spread/crashes", AFTER)
        self.assertEqual(run.verdicts(), {"spread/crashes[W=4]": "crashed", AFTER: "passed"}, run.text())
        self.assertRegex(re.sub(r"\n *", " ", run.out), r"rank 3 on n1 died by signal 11 \(SIGSEGV\) in spread/crashes")
        crash = (run.folder / "worlds/0/evidence/rank-3.crash").read_text()
        self.assertRegex(crash, r"#0 .* in spread_program")

    def test_a_deadlock_over_two_hosts(self):
        run = self.run_on_hosts("spread/waits_in_a_circle", AFTER, "--timeout", "30")
        self.assertEqual(run.verdicts(), {"spread/waits_in_a_circle[W=4]": "error", AFTER: "passed"}, run.text())
        self.assertIn("every rank waits and no rank can continue", re.sub(r"\n *", " ", run.out))

    def test_a_hang_on_another_host(self):
        run = self.run_on_hosts("spread/hangs", AFTER, "--timeout", "1")
        self.assertEqual(run.verdicts(), {"spread/hangs[W=4]": "hung", AFTER: "passed"}, run.text())
        self.assertEqual(ranks_with(run, "spread/hangs[W=4]", "hung"), [2], run.text())
        self.assertIn("State:", (run.folder / "worlds/0/evidence/rank-2.status").read_text())
        self.assertTrue((run.folder / "worlds/0/evidence/rank-2.stacks").exists())
        # The other ranks are released, and end the case themselves.
        self.assertNotIn("was stopped by its launcher", re.sub(r"\n *", " ", run.out))

    def test_lost_connections(self):
        if FABRIC != "tcp":
            self.skipTest("an MPI library may end a rank that loses its connections")
        run = self.run_on_hosts("spread/cuts_its_connections", AFTER, "--timeout", "2")
        self.assertEqual(run.verdicts(), {"spread/cuts_its_connections[W=4]": "error", AFTER: "passed"}, run.text())
        says = (
            r"(no sign of rank 3|verdict is still to come from rank 0) \(on another host\); the TCP connection to "
            r"rank [03] is over: "
        )
        self.assertRegex(re.sub(r"\n *", " ", run.out), says)

    def test_a_port_that_no_rank_can_connect_to(self):
        """Each world of these hosts would wait for the same port until its deadline."""
        if FABRIC != "tcp":
            self.skipTest("an MPI library connects its ranks itself")
        closes = "spread/closes_its_port[W=4]"
        run = self.run_on_hosts("spread/closes_its_port", AFTER, "--timeout", "2", "--max-hangs", "0")
        self.assertEqual(run.verdicts(), {closes: "error", AFTER: "not_run"}, run.text())
        says = r"ended early: rank [123] cannot go on: rank [123] cannot connect to rank 0 .*: Connection refused"
        self.assertRegex(re.sub(r"\n *", " ", run.out), says)

    # -- Ends of ranks, guards, hosts, the command and the launcher ----------------------------------------------------

    def waits(self, meanwhile, *arguments):
        """The case that waits, a case after it, and what happens meanwhile to the processes of the waiting ranks."""

        def act(process, run):
            self.ranks = wait_for(lambda: one_host.waiting_ranks(run, 4))
            self.guards = {rank: parent_of(pid) for rank, pid in self.ranks.items()}
            meanwhile(process)
            self.began = time.monotonic()

        run = self.run_on_hosts(
            "spread/gathers", "spread/waits", AFTER, "--ranks", "4", "--timeout", "60", *arguments, meanwhile=act
        )
        for process in [*self.ranks.values(), *self.guards.values()]:
            wait_for(lambda: is_gone(process))
        return run

    def assert_crashed(self, run, says, culprits):
        self.assertEqual(run.code, 4, run.text())
        verdicts = run.verdicts()
        self.assertEqual(verdicts.pop("spread/waits[W=4]"), "crashed", run.text())
        self.assertEqual(set(verdicts.values()), {"passed"}, run.text())
        self.assertRegex(re.sub(r"\n *", " ", run.out), says)
        self.assertEqual(ranks_with(run, "spread/waits[W=4]", "crashed"), culprits, run.text())

    def test_a_killed_rank(self):
        run = self.waits(lambda _: os.kill(self.ranks[3], signal.SIGKILL))
        self.assert_crashed(run, r"rank 3 on n1 died by signal 9 \(SIGKILL\) in spread/waits", [3])

    def test_a_killed_guard(self):
        run = self.waits(lambda _: os.kill(self.guards[3], signal.SIGKILL))
        self.assert_crashed(
            run, r"rank 3 on n1 died by signal 9 \(SIGKILL, because its guard on n1 ended\) in spread/waits", [3]
        )

    def test_a_killed_lead_guard(self):
        run = self.waits(lambda _: os.kill(self.guards[2], signal.SIGKILL))
        self.assert_crashed(
            run, r"rank 2 on n1 died by signal 9 \(SIGKILL, because its guard on n1 ended\) in spread/waits", [2]
        )

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("gdb"), "only root's gdb stops any process")
    def test_a_rank_that_is_released_before_the_end_of_its_guard_ends_it(self):
        """The connection of a guard that is killed ends a moment before the kernel kills its rank."""
        for rank in (3, 2):  # rank 2 has the guard that leads its host
            with self.subTest(rank=rank), tempfile.TemporaryDirectory() as self.folder:
                # gdb stops the guard for longer than a host may be silent.
                run = self.waits(lambda _: self.end_guard_after_its_connections(rank), "--host-silence", "30s")
                self.assert_crashed(run, r"SIGKILL, because its guard on n1 ended\) in spread/waits", [rank])

    def end_guard_after_its_connections(self, rank):
        """Kills the guard once its rank has left its case."""
        guard, go_on = self.guards[rank], pathlib.Path(self.folder) / "go_on"
        end = [word for socket in tcp_sockets(guard) for word in ("-ex", f"call (int)shutdown({socket}, 2)")]
        wait = f"shell until [ -e {go_on} ]; do sleep 0.01; done"
        gdb = subprocess.Popen(
            ["gdb", "-nx", "-batch", "-p", str(guard), *end, "-ex", wait],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stream = next(pathlib.Path(self.folder).glob(f"*/run/worlds/0/ranks/rank-{rank}.jsonl"))
        wait_for(lambda: '"released"' in stream.read_text())
        os.kill(guard, signal.SIGKILL)
        go_on.touch()
        gdb.wait(60)

    def kill_host(self, first):
        """Stops the processes of a host before it kills the first of them, so that no process acts meanwhile."""
        processes = [table[rank] for table in (self.guards, self.ranks) for rank in (first, first + 1)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in processes:
                with contextlib.suppress(ProcessLookupError):  # The kernel kills a rank together with its guard.
                    os.kill(process, number)

    def test_a_killed_host(self):
        for first in (2, 0):
            with self.subTest(first=first):
                run = self.waits(lambda _: self.kill_host(first))
                host = f"host n{first // 2} with ranks {first}, {first + 1}"
                says = rf"SIGKILL, because {host} was lost\) in spread/waits"
                # The processes of a host end one after the other: one of its ranks may be released before it ends.
                crashed = ranks_with(run, "spread/waits[W=4]", "crashed")
                self.assertTrue(crashed and set(crashed) <= {first, first + 1}, run.text())
                self.assert_crashed(run, says, crashed)

    def test_a_host_that_stops(self):
        def stop(_):
            for process in (*self.guards.values(), *self.ranks.values()):
                if process in (self.guards[2], self.guards[3], self.ranks[2], self.ranks[3]):
                    os.kill(process, signal.SIGSTOP)
            self.stopped = time.monotonic()

        def act(process):
            stop(process)
            # Neither the launcher nor mpirun continues them.
            wait_for(lambda: is_gone(self.ranks[0]))
            self.noticed = time.monotonic() - self.stopped
            for rank in (2, 3):
                os.kill(self.guards[rank], signal.SIGCONT)

        run = self.waits(act)
        self.assert_crashed(run, r"because host n1 with ranks 2, 3 was lost: it sent nothing for 800 ms\)", [2, 3])
        print(f"a host that stops: rank 0 on another host had left after {self.noticed:.2f} s")

    def test_released_ranks_have_time_to_leave_after_a_wait_for_another_host(self):
        """A host that stops sends no flight records, so the other ranks are released after a second."""

        def act(_):
            os.kill(self.guards[2], signal.SIGSTOP)
            os.kill(self.ranks[1], signal.SIGKILL)
            wait_for(lambda: is_gone(self.ranks[0]))
            os.kill(self.guards[2], signal.SIGCONT)

        run = self.waits(act, "--host-silence", "60s")
        self.assert_crashed(run, r"rank 1 on n0 died by signal 9 \(SIGKILL\) in spread/waits", [1])
        end = json.loads((run.folder / "worlds/0/ranks/rank-0.end.json").read_text())
        self.assertFalse(end["signalled"], end)

    def test_a_killed_command(self):
        run = self.waits(lambda _: os.kill(parent_of(self.guards[0]), signal.SIGKILL))
        self.assertEqual(run.code, 4, run.text())
        self.assertEqual(run.verdicts()["spread/waits[W=4]"], "crashed", run.text())
        self.assertEqual(run.verdicts()[AFTER], "passed", run.text())
        self.assertRegex(re.sub(r"\n *", " ", run.out), r"because the command of --launcher ended with signal 9")

    def test_a_killed_launcher(self):
        run = self.waits(lambda process: process.kill())
        self.assertEqual(run.code, -signal.SIGKILL)
        merge = subprocess.run([LAUNCHER, "merge", str(run.folder)], capture_output=True, text=True, timeout=60)
        self.assertEqual(merge.returncode, 5, merge.stdout + merge.stderr)

    def test_an_interrupted_launcher(self):
        run = self.waits(lambda process: process.send_signal(signal.SIGINT))
        self.assertEqual(run.code, 130, run.text())

    def test_the_key_is_private(self):
        def look(process, run):
            wait_for(lambda: one_host.waiting_ranks(run, 4))
            key = run / "worlds/0/key"
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
            secret = key.read_text()
            for found in run.rglob("*"):
                if found.is_file() and found != key:
                    self.assertNotIn(secret, found.read_text(errors="replace"), str(found))
            process.send_signal(signal.SIGINT)

        self.run_on_hosts("spread/waits[W=4]", "--timeout", "60", meanwhile=look)


if __name__ == "__main__":
    LAUNCHER, PROGRAM = map(os.path.abspath, sys.argv[1:3])
    MPIRUN = sys.argv[3]
    FABRIC = "tcp" if MPIRUN == "tcp" else "mpi"
    one_host.LAUNCHER, one_host.PROGRAM = LAUNCHER, PROGRAM
    with tempfile.TemporaryDirectory() as FOLDER:
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
