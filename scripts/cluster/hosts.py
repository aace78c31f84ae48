"""Checks worlds over four nodes of Slurm, with two ranks on each. The nodes are one machine, and count as four
hosts."""
import os
import pathlib
import re
import signal

from cluster.check import OPEN_MPI, is_gone, parent_of, ranks_that_wait, status_of, wait_for
from cluster.fabrics import changed, differences

# Open MPI would find shared memory of equal names on nodes that are one machine.
LAUNCHER = f"salloc -Q -N4 -n {{ranks}} --ntasks-per-node=2 {OPEN_MPI} --mca btl tcp,self"
# Ranks that srun starts have no MPI.
SRUN = "srun -N4 -n {ranks} --ntasks-per-node=2"
OPTIONS = ("--ranks", "8", "--fabric", "mpi", "--timeout", "60")
GATHERS = {f"spread/gathers[W=8,n={n}]": "passed" for n in range(3)}
WAITS, AFTER = "spread/waits[W=8]", "spread/after[W=8]"
CASES = ("spread/gathers", WAITS, AFTER)


def node_of(process):
    try:
        variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return ""
    return next((one.split(b"=", 1)[1].decode() for one in variables if one.startswith(b"SLURMD_NODENAME=")), "")


def processes_of(node):
    """The processes of a run on this node: daemons of mpirun, guards and ranks."""
    found = [int(one.name) for one in pathlib.Path("/proc").glob("[0-9]*") if node_of(one.name) == node]
    return [one for one in found if status_of(one, "Name") in ("orted", "shardproof", "spread_program")]


def kill_processes_of(node):
    for process in processes_of(node):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it followed another one


def outcomes(result, wanted):
    ranks = result.cases.get(WAITS, {}).get("ranks", [])
    return [rank for rank, entry in enumerate(ranks) if entry["outcome"] == wanted]


def four_nodes_without_mpi(check, root, usual):
    print(f"Four hosts: `{SRUN}`\n")
    size = ("--ranks", "8")
    spread = check.run("all suites on four hosts", *size, "--fabric", "tcp", launcher=SRUN)
    same = spread.code == 0 and len(spread.outcomes()) > 50 and not differences(usual, spread)
    check.expect("all suites on eight ranks of four nodes, over TCP, as on one host", same, spread.text[-3000:])
    # GPUs that are threads of the CPU. Each guard lists the GPUs of its node.
    backend = root / "build/lib/libshardproof_cpu_vendor.so"
    cuda = check.run("GPUs", "overlap", *size, "--device", "cuda", "--backend", backend, launcher=SRUN)
    hosts = [host for world in cuda.worlds for host in world["hosts"]]
    gpus = {gpu for host in hosts for gpu in host["gpus"]}
    placed = [(host["name"], host["ranks"]) for host in hosts] == [(f"n{n}", [2 * n, 2 * n + 1]) for n in range(4)]
    passed = list(cuda.verdicts().values()).count("passed")
    holds = cuda.code == 0 and passed > 50 and placed and [len(host["gpus"]) for host in hosts] == [2] * 4
    text = f"{passed} passed on {hosts}\n{cuda.text[-3000:]}"
    check.expect("the overlap suite on two GPUs of each node", holds and len(gpus) == 8, text)
    print()


def four_nodes(check, cluster, usual):
    worker = check.launcher.parent / "spread_program"
    print(f"Four hosts: `{LAUNCHER}`\n")
    plain = check.run("four hosts", "spread/gathers", AFTER, *OPTIONS, "--worker", worker, launcher=LAUNCHER)
    holds = plain.code == 0 and plain.verdicts() == {**GATHERS, AFTER: "passed"}
    check.expect("eight ranks on four nodes", holds, plain.text)
    suites = ("overlap", "exec_order", "--ranks", "8")
    spread = check.run("suites on four hosts", *suites, "--fabric", "mpi", launcher=LAUNCHER)
    same = spread.code == 0 and len(spread.outcomes()) > 50 and not changed(usual, spread)
    check.expect("suites on eight ranks of four nodes, as on one host", same, spread.text)

    def kill_rank(_, folder):
        os.kill(ranks_that_wait(folder, 8)[5], signal.SIGKILL)

    def kill_guard(_, folder):
        os.kill(parent_of(ranks_that_wait(folder, 8)[5]), signal.SIGKILL)

    def kill_lead_guard(_, folder):
        os.kill(parent_of(ranks_that_wait(folder, 8)[4]), signal.SIGKILL)

    def kill_node(_, folder):
        ranks_that_wait(folder, 8)
        kill_processes_of("n2")

    guard_of = r"rank {} on n2 died by signal 9 \(SIGKILL, because its guard on n2 ended\) in spread/waits"
    for name, act, culprits, says in (
        ("a killed rank on n2", kill_rank, [5], r"rank 5 on n2 died by signal 9 \(SIGKILL\) in spread/waits"),
        ("a killed guard on n2", kill_guard, [5], guard_of.format(5)),
        ("the lead guard of n2 is killed", kill_lead_guard, [4], guard_of.format(4)),
        ("all processes on n2 are killed", kill_node, [4, 5], r"SIGKILL, because host n2 with ranks 4, 5 was lost"),
    ):
        result = check.run(name, *CASES, *OPTIONS, "--worker", worker, launcher=LAUNCHER, meanwhile=act)
        text = re.sub(r"\n +", " ", result.text)
        holds = (
            result.code == 4
            and result.verdicts() == {**GATHERS, WAITS: "crashed", AFTER: "passed"}
            and outcomes(result, "crashed") == culprits
            and re.search(says, text)
        )
        check.expect(name, holds, f"{result.code} {result.verdicts()} {outcomes(result, 'crashed')}\n{text}")
        check.expect("  no job is left", cluster.wait_for_no_job(), cluster.call("squeue").stdout)
    lose_node(check, cluster, worker)
    print()


def lose_node(check, cluster, worker):
    """The daemon of a node ends, too, and does not come back: no fresh world can start."""

    def act(_, folder):
        ranks = ranks_that_wait(folder, 8)
        cluster.kill_node("n2")
        kill_processes_of("n2")
        wait_for(lambda: all(is_gone(process) for process in ranks.values()), 30)

    cases = ("spread/gathers", WAITS)
    result = check.run("a lost node", *cases, *OPTIONS, "--worker", worker, launcher=LAUNCHER, meanwhile=act)
    text = re.sub(r"\n +", " ", result.text)
    holds = result.verdicts() == {**GATHERS, WAITS: "crashed"} and outcomes(result, "crashed") == [4, 5]
    holds = holds and "because host n2 with ranks 4, 5 was lost" in text
    check.expect("a node with its daemon is killed", holds, f"{result.code} {result.verdicts()}\n{text}")
