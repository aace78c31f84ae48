#!/usr/bin/env python3
"""Runs the whole suite again and again, while two processes for each core compute without end. Every case must pass.

    under_load.py LAUNCHER WORKER [RUNS]

Ends with 1 at the first failed run, and keeps its folder.
"""
import json
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def compute():
    while True:
        sum(range(10_000))


def main(launcher, worker, runs):
    load = [multiprocessing.Process(target=compute, daemon=True) for _ in range(2 * os.cpu_count())]
    for process in load:
        process.start()
    cases, longest, began = 0, 0.0, time.monotonic()
    for run in range(1, runs + 1):
        folder = tempfile.mkdtemp(prefix="shardproof-load-")
        started = time.monotonic()
        ended = subprocess.run(
            [launcher, "run", "--worker", worker, "--out", f"{folder}/run", "--seed", str(run), "--order", "random"],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        longest = max(longest, time.monotonic() - started)
        counts = (
            json.loads(pathlib.Path(folder, "run/report.json").read_text())["summary"] if ended.returncode == 0 else {}
        )
        if ended.returncode != 0 or counts["flaky"] or not counts["passed"]:
            print(f"run {run}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}\nkept: {folder}")
            return 1
        cases += counts["passed"]
        shutil.rmtree(folder)
    print(
        f"{runs} runs with {len(load)} busy processes: {cases} cases, all passed; "
        f"{(time.monotonic() - began) / runs:.1f} s a run, {longest:.1f} s the longest"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(os.path.abspath, sys.argv[1:3]), int(sys.argv[3]) if len(sys.argv) > 3 else 1000))
