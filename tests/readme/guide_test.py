#!/usr/bin/env python3
"""Does docs/write-a-case.md lead to where it says? Installs the build, follows the page as a reader would, from an empty directory: adds
each piece of code to the end of the program, builds it again before the next command, and compares what every command prints with what
is quoted.

    guide_test.py ROOT BUILD GENERATOR COMPILER
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from readme_test import commands, without_volatile

READERS_DIRECTORY = "/home/ada/mine"  # where the page says that it is


class Reader:
    def __init__(self, scratch, build, generator, compiler):
        prefix = scratch / "prefix"
        subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)], check=True, stdout=subprocess.DEVNULL)
        self.directory = scratch / "mine"
        self.directory.mkdir()
        self.environment = dict(os.environ, PATH=f"{prefix / 'bin'}:{os.environ['PATH']}", CMAKE_PREFIX_PATH=str(prefix),
                                CMAKE_GENERATOR=generator, CXX=compiler)
        self.is_built = True
        self.ended_with = 0
        self.ran = 0

    def add(self, file, piece):
        path = self.directory / file
        so_far = path.read_text(encoding="utf-8") + "\n" if path.exists() else ""
        path.write_text(so_far + piece, encoding="utf-8")
        self.is_built = False

    def call(self, command):
        return subprocess.run(command, shell=True, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=300)

    def untrue(self, command, quoted, is_awaited):
        """What is wrong with a command; empty where nothing is. `is_awaited`: the next command tells how it ended."""
        if command == "echo $?":
            return "" if quoted.strip() == str(self.ended_with) else f"the command before it ended with {self.ended_with}"
        if command.startswith("cmake"):
            self.is_built = True
        elif not self.is_built:
            built = self.call("cmake --build build")
            if built.returncode != 0:
                return f"cannot be built:\n{built.stdout}{built.stderr}"
            self.is_built = True
        result = self.call(command)
        self.ended_with = result.returncode
        self.ran += 1
        if result.returncode != 0 and not is_awaited:
            return f"ended with {result.returncode}:\n{result.stdout}{result.stderr}"
        printed = result.stdout.replace(str(self.directory), READERS_DIRECTORY)
        if quoted and stable(printed) != stable(quoted):
            return f"printed\n{stable(printed)}\n  the page says\n{stable(quoted)}"
        return ""


def stable(text):
    text = re.sub(r"shardproof-out/[\d-]+/", "shardproof-out/RUN/", without_volatile(text))
    return re.sub(r"^(FAIL .*) rank \d+, [\d.]+ (ms|s)", r"\1 rank R, T", text, flags=re.M)  # either rank may be the first


def main(root, build, generator, compiler):
    page = (root / "docs/write-a-case.md").read_text(encoding="utf-8")
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        reader = Reader(pathlib.Path(scratch).resolve(), build, generator, compiler)
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```", page, re.S | re.M):
            if language in ("cmake", "cpp"):
                reader.add({"cmake": "CMakeLists.txt", "cpp": "my_tests.cpp"}[language], block)
            elif language == "console":
                said = list(commands(f"```console\n{block}```"))
                for number, (command, quoted) in enumerate(said):
                    is_awaited = number + 1 < len(said) and said[number + 1][0] == "echo $?"
                    if wrong := reader.untrue(command, quoted, is_awaited):
                        failures.append(f"{command}\n  {wrong}")
    if reader.ran == 0:
        failures.append("no command found in docs/write-a-case.md")
    for failure in failures:
        print("FAIL", failure)
    print(f"{reader.ran} commands")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[4]))
