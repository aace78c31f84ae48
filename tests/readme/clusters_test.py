#!/usr/bin/env python3
"""Checks docs/clusters.md: runs each command of the page in order, in one temporary folder, and compares its output
with the quoted output. A small launcher takes the part of mpirun, srun and torchrun, which this machine may not have.
MPIRUN is the mpirun of an MPI library. Without it, the commands with messages of MPI do not run.

    clusters_test.py ROOT LAUNCHER [MPIRUN]
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from readme_test import agrees, commands, finish

STARTS = {"mpirun": "openmpi", "srun": "srun", "torchrun": "torchrun"}


MESSAGES = re.compile(r"--fabric mpi|by_messages|before after")


def write_launchers(folder, root, mpirun):
    """Programs with the names of the launchers on the page."""
    folder.mkdir()
    foreign = root / "tests/launcher/foreign_launcher.py"
    for name, kind in STARTS.items():
        program = folder / name
        number = '[ "$1" = --no-python ] && shift; ' if name == "torchrun" else ""
        program.write_text(f'#!/bin/sh\n{number}shift\nexec {sys.executable} -B {foreign} --as {kind} -n "$@"\n')
        if name == "mpirun" and mpirun:
            program.write_text(f'#!/bin/sh\nexec {mpirun} "$@"\n')
        program.chmod(0o755)


def main(root, launcher, mpirun=None):
    page = (root / "docs/clusters.md").read_text(encoding="utf-8")
    failures, ran = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        write_launchers(folder / "launchers", root, mpirun)
        environment = dict(os.environ, PATH=f"{folder / 'launchers'}:{launcher.parent}:{os.environ['PATH']}")
        for command, quoted in commands(page):
            if not mpirun and MESSAGES.search(command):
                continue
            result = subprocess.run(
                command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
            )
            ran += 1
            if result.returncode != 0:
                failures.append(f"{command}\n  ended with {result.returncode}:\n{result.stdout}{result.stderr}")
            elif quoted.strip() and not agrees(result.stdout, quoted):
                failures.append(f"{command}\n  printed\n{result.stdout}\n  the page says\n{quoted}")
    return finish(failures, ran)


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(path).resolve() for path in sys.argv[1:3]), *sys.argv[3:]))
