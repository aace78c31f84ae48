"""Runs all suites on each fabric and on worlds of each size, and compares the results with those of the fabric shm."""
import shutil
import time

from cluster.check import MPICH, OPEN_MPI

FABRICS = (
    ("shm", ("--fabric", "shm"), None),
    ("thread", ("--fabric", "thread"), None),
    ("tcp", ("--fabric", "tcp"), None),
    ("Open MPI", ("--fabric", "mpi"), OPEN_MPI),
    ("MPICH", ("--fabric", "mpi"), MPICH),
)
SIZES = (2, 4, 8, 16, 32, 64)
# On few cores, 64 ranks take seconds for a case of this suite. One of its four cases runs.
FEWER = {
    64: ("overlap", "comm_hooks", "exec_order", "replicate", "extensions/exact_parity[W=64,form=full,reshard=true]")
}


def is_installed(launcher):
    return launcher is None or shutil.which(launcher.split()[0])


def differences(usual, other):
    """Cases that ran on both fabrics and differ, or that only one of them lists."""
    return sorted([*changed(usual, other), *(set(usual.cases) ^ set(other.cases))])


def changed(usual, other):
    """Cases that ran in both runs, with other outcomes."""
    one, another = usual.outcomes(), other.outcomes()
    return [name for name in set(one) & set(another) if one[name] != another[name]]


def compare(check):
    """Returns the runs on shm, by the size of their worlds."""
    print("\nAll suites. `equal`: the verdict and the outcomes of all ranks are those on shm.\n")
    print("| ranks | fabric | cases | skipped | result | time |\n|---|---|---|---|---|---|", flush=True)
    runs = {}
    for size in SIZES:
        for name, options, launcher in FABRICS:
            if not is_installed(launcher):
                print(f"| {size} | {name} | | | not installed | |")
                continue
            began = time.monotonic()
            cases = FEWER.get(size, ())
            result = check.run(f"{name} {size}", *cases, "--ranks", str(size), *options, launcher=launcher)
            took = time.monotonic() - began
            usual = runs.setdefault(size, result)
            wrong = differences(usual, result)
            skipped = list(result.verdicts().values()).count("skipped")
            holds = result.code == 0 and len(result.cases) > skipped and not wrong
            word = "equal" if holds else f"exit code {result.code}, {len(wrong)} differ: {', '.join(wrong[:3])}"
            print(f"| {size} | {name} | {len(result.cases)} | {skipped} | {word} | {took:.1f} s |", flush=True)
            if not holds:
                check.failures += 1
                print(result.text[-3000:], check.difference(usual, result)[-2000:], flush=True)
    print()
    return runs
