#!/usr/bin/env python3
"""Checks the section on coverage of docs/reliability.md. Runs each of its commands in a folder that has the programs of
the section, compares the outputs with the quoted outputs, and leaves out commands of a tool that is not installed. Also
checks that a rank ends in time if it hangs while it writes its counters.

    coverage_test.py ROOT LAUNCHER GCC_PROGRAM GCC_NOTES [LLVM_PROGRAM CLANG]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "readme"))
from readme_test import agrees, commands

HEADING = "## Coverage of a rank that is ended\n"


def section(root):
    page = (root / "docs/reliability.md").read_text(encoding="utf-8")
    return page.partition(HEADING)[2].partition("\n## ")[0]


def run(command, folder, environment):
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def follow(text, folder, environment, missing):
    """The failures of the section's commands, and the number of commands that ran."""
    failures, ran = [], 0
    shown = list(commands(text))
    for (command, quoted), (following, code) in zip(shown, [*shown[1:], ("", "")]):
        if command == "echo $?" or any(word in command for word in missing):
            continue
        result = run(command, folder, environment)
        ran += 1
        expected = int(code) if following == "echo $?" else 0
        if result.returncode != expected or (quoted and not agrees(result.stdout, quoted)):
            failures.append(f"{command}\n  ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return failures, ran


def main(root, launcher, program, notes, llvm_program=None, clang=pathlib.Path()):
    # The tools of another version of LLVM cannot read the counters.
    has_tools = all((clang.parent / tool).exists() for tool in ("llvm-cov", "llvm-profdata"))
    missing = [] if llvm_program and has_tools else ["llvm"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        (folder / "my_tests").symlink_to(program)
        shutil.copy(notes, folder / "my_tests.cpp.gcno")
        for sources in ("harness", "tests"):  # the notes name files relative to the tree's root
            (folder / sources).symlink_to(root / sources)
        if llvm_program:
            (folder / "my_tests_llvm").symlink_to(llvm_program)
        # gcc writes counters beside the object file, wherever that is. Here they belong beside the notes.
        environment = dict(
            os.environ, PATH=f"{launcher.parent}:{clang.parent}:{os.environ['PATH']}", GCOV_PREFIX=str(folder),
            GCOV_PREFIX_STRIP="99",
        )
        failures, ran = follow(section(root), folder, environment, missing)
        if ran == 0:
            failures.append(f"no command found under {HEADING}")
        # A counter file that is a pipe without a reader lets a rank hang while it writes.
        (folder / "pipe").mkdir()
        os.mkfifo(folder / "pipe/my_tests.cpp.gcda")
        started = time.monotonic()
        result = run(
            "shardproof run mine/hangs --worker ./my_tests --timeout 1 --out stuck "
            "--rank-wrapper 'env GCOV_PREFIX=$PWD/pipe'", folder, environment,
        )
        took = time.monotonic() - started
        if result.returncode != 4 or took > 15:
            failures.append(f"a rank that hangs as it writes: {result.returncode} after {took:.1f} s\n{result.stdout}")
    for failure in failures:
        print("FAIL", failure)
    print(f"{ran} commands" + (", without LLVM" if missing else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(path).resolve() for path in sys.argv[1:])))
