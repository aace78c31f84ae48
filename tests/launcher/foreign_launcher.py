#!/usr/bin/env python3
"""A small launcher of another project, for tests of `shardproof run --launcher`: starts N processes of a command with
the variables of mpirun, srun or torchrun, and ends when they have ended.

    foreign_launcher.py -n N [--as torchrun|openmpi|mpich|srun|batch] [options] COMMAND...

It ends with the first exit code that is not 0, or with 1 after a signal."""
import argparse
import os
import signal
import subprocess
import sys
import time


def variables(kind, rank, size):
    return {
        "torchrun": {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "TORCHELASTIC_RESTART_COUNT": 0},
        "openmpi": {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": size, "PMIX_RANK": rank},
        "mpich": {"PMI_RANK": rank, "PMI_SIZE": size},
        "srun": {"SLURM_PROCID": rank, "SLURM_NTASKS": size, "SLURM_STEP_ID": 0},
        "batch": {"SLURM_PROCID": 0, "SLURM_NTASKS": size},
        "none": {},
    }[kind]


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("--as", dest="kind", default="openmpi")
    parser.add_argument("--also-as", action="append", default=[], help="further variables, of rank 0 of 1")
    parser.add_argument("--start", type=int, help="start only so many of the N processes")
    parser.add_argument("--break-last", action="store_true", help="the last process fails at once")
    parser.add_argument("--twice", action="store_true", help="start the last process as rank 0")
    parser.add_argument("--per-host", type=int, help="so many ranks are on each node n0, n1, ... of Slurm")
    parser.add_argument("--set", action="append", default=[], help="a further variable, NAME=VALUE")
    parser.add_argument("--kill-others", action="store_true", help="when a process ends with an error")
    parser.add_argument("--ignore-terminate", action="store_true")
    parser.add_argument("--say", default="", help="print this first")
    parser.add_argument("--exit", type=int, help="end at once with this code")
    parser.add_argument("--linger", type=float, default=0, help="seconds after the last process")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


def start(given, rank):
    environment = dict(os.environ)
    shown = 0 if given.twice and rank == given.n - 1 else rank
    for kind in given.also_as:
        environment.update({name: str(value) for name, value in variables(kind, 0, 1).items()})
    environment.update({name: str(value) for name, value in variables(given.kind, shown, given.n).items()})
    environment.update(entry.split("=", 1) for entry in given.set)
    if given.per_host:
        environment["SLURMD_NODENAME"] = f"n{rank // given.per_host}"
    is_broken = given.break_last and rank == given.n - 1
    return subprocess.Popen(["false"] if is_broken else given.command, env=environment)


def main():
    given = options()
    if given.say:
        print(given.say, flush=True)
    if given.exit is not None:
        return given.exit
    processes = [start(given, rank) for rank in range(given.n if given.start is None else given.start)]

    def pass_on(number, _):
        if not given.ignore_terminate:
            for process in processes:
                process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    worst, others_killed = 0, False
    while any(process.poll() is None for process in processes):
        failed = [process for process in processes if process.poll() not in (None, 0)]
        if failed and given.kill_others and not others_killed:
            others_killed = True
            pass_on(signal.SIGTERM, None)
        time.sleep(0.01)
    time.sleep(given.linger)
    for process in processes:
        worst = worst or (process.returncode if process.returncode >= 0 else 1)
    return worst


if __name__ == "__main__":
    sys.exit(main())
