#!/usr/bin/env python3
"""Checks that the examples of `--help` work. Runs each example in a folder with the files that it names.

    help_test.py LAUNCHER PROGRAM SCENARIO

The examples call PROGRAM ./my_tests. It has cases, and a fault `noticed`. A small launcher takes the part of srun. An
example may find failures, but it must not be wrong usage.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

COMMANDS = "run list faults merge diff export statement doctor explain play explore stable".split()


def failure(launcher, folder, arguments):
    """The failure of a command as text, or an empty text if it works."""
    environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
    result = subprocess.run(
        [launcher, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    if result.returncode in (0, 1):  # 1: it worked, and found a failure
        return ""
    return f"shardproof {shlex.join(arguments)}\n  ended with {result.returncode}:\n{result.stdout}{result.stderr}"


def prepare(launcher, folder, program, scenario):
    (folder / "shardproof-out").mkdir(parents=True)  # for the link to the latest run
    (folder / "my_tests").symlink_to(program)
    foreign = pathlib.Path(__file__).parent / "foreign_launcher.py"
    (folder / "srun").write_text(f'#!/bin/sh\nexec {sys.executable} -B {foreign} --as srun "$@"\n')
    (folder / "srun").chmod(0o755)
    for name in ("scenario.json", "a.json", "b.json"):
        shutil.copy(scenario, folder / name)
    runs = [("--worker", "./my_tests", "--fault", "noticed", "--out", out) for out in ("before", "after")]
    failures = [
        failure(launcher, folder, ("run", *arguments))
        for arguments in (*runs, ("overlap/training_overlap", "--out", "my_run"))
    ]
    shutil.copy(folder / "after/report.json", folder / "new.json")
    return failures


def examples(launcher, command):
    text = subprocess.run([launcher, *command, "--help"], capture_output=True, text=True, check=True).stdout
    block = re.search(r"^Examples:\n((?: .*\n)+)", text, re.M).group(1)
    for line in re.findall(r"^ {4}shardproof (.*)", block, re.M):
        yield shlex.split(re.split(r" {2,}", line)[0])


def shortened(arguments):
    """Shortens a command, because whole suites take too long at all world sizes and with all faults."""
    if arguments[0] == "faults" and "overlap" in arguments:
        arguments = ["overlap/training_overlap" if word == "overlap" else word for word in arguments]
    is_short = {"--worker", "--rerun-failed", "--ranks", "--help"} & set(arguments)
    return [*arguments, "--ranks", "1"] if arguments[0] in ("run", "faults") and not is_short else arguments


def main(launcher, program, scenario):
    ran = 0
    with tempfile.TemporaryDirectory() as scratch:
        prepared, here = pathlib.Path(scratch) / "prepared", pathlib.Path(scratch) / "here"
        failures = prepare(launcher, prepared, program, scenario)
        for command in ((), *((name,) for name in COMMANDS)):
            for arguments in examples(launcher, command):
                if "pytorch" in " ".join(arguments):
                    continue  # this test does not install PyTorch
                shutil.copytree(prepared, here, symlinks=True)  # no example needs an earlier one
                failures.append(failure(launcher, here, shortened(arguments)))
                shutil.rmtree(here)
                ran += 1
    failures = list(filter(None, failures))
    for text in failures:
        print("FAIL", text)
    print(f"{ran} examples")
    return 1 if failures or ran < len(COMMANDS) else 0


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(path).resolve() for path in sys.argv[1:])))
