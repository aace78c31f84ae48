"""Kills each process of a run under `salloc mpirun`, at a random moment while the ranks wait in a case."""
import os
import pathlib
import random
import re
import signal
import subprocess
import time

from cluster.check import OPEN_MPI, is_gone, parent_of, ranks_that_wait, status_of, wait_for

# The case that waits, one before it, and one after it for a fresh world.
CASES = ("good/stays[W=2]", "bad/waits[W=2]", "loud/floods[W=2]", "--timeout", "60")
VERDICTS = {"good/stays[W=2]": "passed", "bad/waits[W=2]": "crashed", "loud/floods[W=2]": "passed"}
# The fabric shm reaches one node.
UNDER_SALLOC = {"shm": f"salloc -Q -N1 -n {{ranks}} {OPEN_MPI}", "mpi": f"salloc -Q -N2 -n {{ranks}} {OPEN_MPI}"}


def is_below(process, ancestor):
    while process > 1 and process != ancestor:
        process = int(status_of(process, "PPid") or 0)
    return process == ancestor


def mpirun_of(launcher):
    """The mpirun among the descendants of a process."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        name = status_of(folder.name, "Name") or ""
        if name.startswith(("mpirun", "orterun")) and is_below(int(folder.name), launcher):
            return int(folder.name)
    raise AssertionError("the run has no mpirun")


class Kills:
    def __init__(self, check, cluster, seed):
        self.check, self.cluster = check, cluster
        self.random = random.Random(seed)

    def victims(self, launcher, folder):
        """Each kind of process of a run whose ranks wait."""
        ranks = ranks_that_wait(folder, 2)
        guards = {rank: parent_of(process) for rank, process in ranks.items()}
        self.to_end = [*ranks.values(), *guards.values()]
        return {
            "rank": lambda: ranks[1],
            "guard": lambda: guards[1],
            "node daemon of mpirun": lambda: parent_of(guards[1]),
            "mpirun": lambda: mpirun_of(launcher),
            "launcher": lambda: launcher,
        }

    def kill(self, victim, fabric, says):
        delay = self.random.uniform(0, 0.3)

        def act(process, folder):
            victims = self.victims(process.pid, folder)
            time.sleep(delay)
            os.kill(victims[victim](), signal.SIGKILL)

        name = f"killed {victim}, fabric {fabric}"
        options = ("--worker", self.check.trouble, "--fabric", fabric)
        began = time.monotonic()
        result = self.check.run(name, *CASES, *options, launcher=UNDER_SALLOC[fabric], meanwhile=act)
        took = time.monotonic() - began
        text = re.sub(r"\n +", " ", result.text)
        if victim == "launcher":
            merge = [self.check.launcher, "merge", result.folder]
            merged = subprocess.run(merge, capture_output=True, text=True, timeout=60, check=False)
            holds = result.code == -signal.SIGKILL and merged.returncode == 5
            text += merged.stdout + merged.stderr
        else:
            holds = result.code == 4 and result.verdicts() == VERDICTS and re.search(says, text)
        self.check.expect(f"{name} ({took:.1f} s)", holds, f"{result.code} {result.verdicts()}\n{text[-3000:]}")
        ended = wait_for(lambda: all(is_gone(process) for process in self.to_end), 30)
        self.check.expect("  no rank, guard or job is left", ended and self.cluster.wait_for_no_job())


def kill_each(check, cluster, seed):
    print(f"Kills under `{UNDER_SALLOC['mpi']}`, at random moments of seed {seed}.\n")
    kills = Kills(check, cluster, seed)
    by_signal = r"rank \d( on n\d)? died by signal (9|15) \(SIG\w+, (because|sent to its guard)"
    for fabric in ("shm", "mpi"):
        kills.kill("rank", fabric, r"rank 1( on n1)? died by signal 9 \(SIGKILL\) in bad/waits")
        kills.kill("guard", fabric, r"rank 1( on n1)? died by signal 9 \(SIGKILL, because its guard( on n1)? ended\)")
        kills.kill("node daemon of mpirun", fabric, by_signal)
        kills.kill("mpirun", fabric, by_signal)
        kills.kill("launcher", fabric, "")
    print()
