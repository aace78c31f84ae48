"""Kills each process of a run under `salloc mpirun` and under `srun`, at a random moment while the ranks wait in a
case."""
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from cluster.check import OPEN_MPI, cut_connections, is_gone, parent_of, ranks_that_wait, status_of, wait_for

# The case that waits, one before it, and one after it for a fresh world.
CASES = ("good/stays[W=2]", "bad/waits[W=2]", "loud/floods[W=2]", "--timeout", "60")
VERDICTS = {"good/stays[W=2]": "passed", "bad/waits[W=2]": "crashed", "loud/floods[W=2]": "passed"}
# The fabric shm reaches one node.
LAUNCHERS = {
    "shm": f"salloc -Q -N1 -n {{ranks}} {OPEN_MPI}",
    "mpi": f"salloc -Q -N2 -n {{ranks}} {OPEN_MPI}",
    "tcp": "srun -N2 -n {ranks}",
}


def is_below(process, ancestor):
    while process > 1 and process != ancestor:
        process = int(status_of(process, "PPid") or 0)
    return process == ancestor


def command_of(launcher, names):
    """The process of one of these names among the descendants of a process."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        name = status_of(folder.name, "Name") or ""
        if name.startswith(names) and is_below(int(folder.name), launcher):
            return int(folder.name)
    raise AssertionError(f"the run has no {names[0]}")


class Kills:
    def __init__(self, check, cluster, seed):
        self.check, self.cluster = check, cluster
        self.random = random.Random(seed)

    def ends(self, launcher, folder):
        """For each process or connection of a run whose ranks wait, a function that ends it."""
        ranks = ranks_that_wait(folder, 2)
        guards = {rank: parent_of(process) for rank, process in ranks.items()}
        self.to_end = [*ranks.values(), *guards.values()]

        def kill(process):
            os.kill(process, signal.SIGKILL)

        return {
            "killed rank": lambda: kill(ranks[1]),
            "killed guard": lambda: kill(guards[1]),
            "cut connections of a guard": lambda: cut_connections(guards[1]),
            "killed node daemon of mpirun": lambda: kill(parent_of(guards[1])),
            "killed node daemon of srun": lambda: kill(parent_of(guards[1])),
            "killed mpirun": lambda: kill(command_of(launcher, ("mpirun", "orterun"))),
            "killed srun": lambda: kill(command_of(launcher, ("srun",))),
            "killed launcher": lambda: kill(launcher),
        }

    def end(self, what, fabric, says):
        delay = self.random.uniform(0, 0.3)

        def act(process, folder):
            ends = self.ends(process.pid, folder)
            time.sleep(delay)
            ends[what]()

        name = f"{what}, fabric {fabric}"
        options = ("--worker", self.check.trouble, "--fabric", fabric)
        began = time.monotonic()
        result = self.check.run(name, *CASES, *options, launcher=LAUNCHERS[fabric], meanwhile=act)
        took = time.monotonic() - began
        text = re.sub(r"\n +", " ", result.text)
        if what == "killed launcher":
            merge = [self.check.launcher, "merge", result.folder]
            merged = subprocess.run(merge, capture_output=True, text=True, timeout=60, check=False)
            holds = result.code == -signal.SIGKILL and merged.returncode == 5
            text += merged.stdout + merged.stderr
        else:
            holds = result.code == 4 and result.verdicts() == VERDICTS and re.search(says, text)
        self.check.expect(f"{name} ({took:.1f} s)", holds, f"{result.code} {result.verdicts()}\n{text[-3000:]}")
        if what in ("killed node daemon of srun", "killed srun"):
            # Without one of its own processes, Slurm counts the job as running until it is cancelled.
            self.cluster.call("scancel", "-u", "root")
        ended = wait_for(lambda: all(is_gone(process) for process in self.to_end), 30)
        self.check.expect("  no rank, guard or job is left", ended and self.cluster.wait_for_no_job())


def kill_each(check, cluster, seed):
    print(f"Kills under `{LAUNCHERS['mpi']}` and `{LAUNCHERS['tcp']}`, at random moments of seed {seed}.\n")
    kills = Kills(check, cluster, seed)
    by_signal = r"rank \d( on n\d)? died by signal (9|15) \(SIG\w+, (because|sent to its guard)"
    for fabric in LAUNCHERS:
        command = "srun" if fabric == "tcp" else "mpirun"
        by_end_of_guard = r"rank 1( on n1)? died by signal 9 \(SIGKILL, because its guard( on n1)? ended\)"
        kills.end("killed rank", fabric, r"rank 1( on n1)? died by signal 9 \(SIGKILL\) in bad/waits")
        kills.end("killed guard", fabric, by_end_of_guard)
        if fabric == "tcp":
            kills.end("cut connections of a guard", fabric, by_end_of_guard)
        kills.end(f"killed node daemon of {command}", fabric, by_signal)
        kills.end(f"killed {command}", fabric, by_signal)
        kills.end("killed launcher", fabric, "")
    print()
