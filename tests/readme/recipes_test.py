#!/usr/bin/env python3
"""Checks docs/recipes.md: writes the scripts that the page shows, runs each command of the page in order, in one
temporary folder, and compares its output with the quoted output. The command `echo $?` shows the exit code of the
command before it. All other commands must succeed.

    recipes_test.py ROOT LAUNCHER
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from readme_test import agrees, commands, finish


def write_scripts(page, folder):
    """Writes each script of the page. Its second line is a comment that begins with the name of its file."""
    scripts = re.findall(r"^```sh\n(#!/bin/sh\n# (\w+):.*?)^```", page, re.S | re.M)
    for text, name in scripts:
        (folder / name).write_text(text, encoding="utf-8")
    return len(scripts)


def environment_of(launcher, folder):
    """The user's variables, with an author for git and without the user's settings of git."""
    names = [f"GIT_{role}_{what}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    settings = dict.fromkeys(names, "ada@example.com")
    return dict(
        os.environ, **settings, HOME=str(folder), GIT_CONFIG_NOSYSTEM="1", GIT_CEILING_DIRECTORIES=str(folder.parent),
        PATH=f"{launcher.parent}:{os.environ['PATH']}",
    )


def main(root, launcher):
    page = (root / "docs/recipes.md").read_text(encoding="utf-8")
    failures, ran = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch).resolve()
        if write_scripts(page, folder) == 0:
            failures.append("the page shows no script")
        environment = environment_of(launcher, folder)
        shown = list(commands(page))
        for (command, quoted), (following, code) in zip(shown, [*shown[1:], ("", "")]):
            if command == "echo $?":
                continue
            result = subprocess.run(
                command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
            )
            ran += 1
            expected = int(code) if following == "echo $?" else 0
            if result.returncode != expected:
                failures.append(
                    f"{command}\n  ended with {result.returncode}, not {expected}:\n{result.stdout}{result.stderr}"
                )
            elif quoted and not agrees(result.stdout, quoted):
                failures.append(f"{command}\n  printed\n{result.stdout}\n  the page says\n{quoted}")
    return finish(failures, ran)


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(path).resolve() for path in sys.argv[1:])))
