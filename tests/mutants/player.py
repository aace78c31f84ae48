"""Plays cases of the suites on a worker whose engines have defects that can be switched on."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

# The launcher runs this script as the worker. Listing hundreds of cases takes longer than playing a few, so the script
# lists only those few. `ulimit` ends a defect that computes forever. The fabric or the launcher ends a defect that
# waits forever.
FRONT = """#!/bin/sh
if [ "$1" = --list-json ]; then exec cat "$SHARDPROOF_LISTING"; fi
ulimit -t 6
ulimit -c 0
exec "$SHARDPROOF_MUTANT_WORKER" "$@"
"""
WAIT_SECONDS = 20
BAD = ("failed", "error", "disagreed", "hung", "crashed")


def name_of(case):
    return case["id"].split("[")[0]


def played_by_default(listing):
    """The cases of the default profile. The launcher refuses other cases without the option for their profile."""
    left_out = set(listing["profiles"][0]["without_tags"])
    return [case for case in listing["cases"] if not left_out.intersection(case["tags"])]


class Player:
    """Makes reports of runs, with one defect of the engines or with the unchanged engines."""

    def __init__(self, launcher, worker, scratch):
        self.launcher, self.worker, self.scratch = launcher, worker, pathlib.Path(scratch)
        listing = subprocess.run([worker, "--list-json"], stdout=subprocess.PIPE, check=True, timeout=60).stdout
        self.listing = json.loads(listing)
        self.listing["cases"] = played_by_default(self.listing)
        self.front = self.scratch / "worker"
        self.front.write_text(FRONT, encoding="utf-8")
        self.front.chmod(0o700)

    def report(self, cases, **environment):
        """The report of a run of these cases, or None if all of them passed."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        listing, out = folder / "listing.json", folder / "out"
        listing.write_text(json.dumps({**self.listing, "cases": cases}), encoding="utf-8")
        environment.update(SHARDPROOF_LISTING=str(listing), SHARDPROOF_MUTANT_WORKER=str(self.worker))
        command = [
            self.launcher,
            "run",
            "--worker",
            self.front,
            "--quiet",
            "--max-skips",
            "0",
            "--timeout",
            str(WAIT_SECONDS),
            "--out",
            out,
        ]
        result = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        try:
            if result.returncode == 0:
                return None
            if not (out / "report.json").exists():
                raise AssertionError(f"a run ended with {result.returncode} and without a report:\n{result.stderr}")
            return json.loads((out / "report.json").read_text(encoding="utf-8"))
        finally:
            shutil.rmtree(folder)
