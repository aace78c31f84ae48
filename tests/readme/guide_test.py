#!/usr/bin/env python3
"""Checks that a guide works. Installs the build, and follows the page in an empty directory, as a reader would:
- sets the variables that the page exports,
- appends each piece of code to its file,
- makes the changes that the page shows, and builds again before the next command,
- runs each command, and compares its output with the quoted output.

Code that the page quotes from copied files must be in one of these files.

    guide_test.py ROOT BUILD GENERATOR COMPILER PAGE
"""
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from readme_test import commands, without_volatile

HOME = "/home/ada"  # the reader's home on the pages


@dataclasses.dataclass
class Page:
    begins_in: str  # a folder below HOME
    files: dict  # the file for the pieces of each language
    warnings: str = ""


PAGES = {
    "write-a-case.md": Page("mine", {"cmake": "CMakeLists.txt", "cpp": "my_tests.cpp"}),
    "ctest.md": Page("mine", {"cmake": "CMakeLists.txt", "cpp": "my_tests.cpp"}),
    "plug-in-an-engine.md": Page(
        ".", {"cmake": "CMakeLists.txt", "cpp": "my_engine.cpp", "json": "stack.json"}, "-Wall -Wextra -Werror"
    ),
}


class Reader:
    def __init__(self, scratch, page, build, generator, compiler):
        self.page = page
        self.prefix = scratch / "prefix"
        subprocess.run(
            ["cmake", "--install", str(build), "--prefix", str(self.prefix)], check=True, stdout=subprocess.DEVNULL
        )
        self.home = scratch / "home"
        self.directory = self.home / page.begins_in
        self.directory.mkdir(parents=True)
        self.environment = dict(
            os.environ, CMAKE_GENERATOR=generator, CXX=compiler, CFLAGS=page.warnings, CXXFLAGS=page.warnings
        )
        self.has_copied = False
        self.is_built = True
        self.ended_with = 0
        self.ran = 0

    def follow(self, language, block):
        """Follows a code block. Yields failures."""
        if language == "console":
            shown = list(commands(f"```console\n{block}```"))
            for number, (command, quoted) in enumerate(shown):
                is_awaited = number + 1 < len(shown) and shown[number + 1][0] == "echo $?"
                if failure := self.failure(command, quoted, is_awaited):
                    yield f"{command}\n  {failure}"
        elif language == "diff":
            yield from self.change(block)
        elif language in ("c", "cpp", "python") and self.has_copied:
            if not any(block in path.read_text(encoding="utf-8") for path in self.directory.glob("*.*")):
                yield f"no file of {self.directory.name} contains:\n{block}"
        elif language in self.page.files:
            self.add(self.page.files[language], block)
        elif not language:
            for line in re.findall(r"^export (.*)", block, re.M):
                self.export(line)

    def export(self, line):
        for word in shlex.split(line):
            name, value = word.split("=", 1)
            value = re.sub(r"\$(\w+)", lambda variable: self.environment[variable[1]], value)
            self.environment[name] = re.sub(r"\bDIR\b", str(self.prefix), value)

    def add(self, file, piece):
        path = self.directory / file
        so_far = path.read_text(encoding="utf-8") + "\n" if path.exists() else ""
        path.write_text(so_far + piece, encoding="utf-8")
        self.is_built = path.suffix == ".json"

    def change(self, difference):
        _, *parts = re.split(r"^--- (\S+)\n\+\+\+ .*\n", difference, flags=re.M)
        for file, hunks in zip(parts[::2], parts[1::2]):
            path = self.directory / file
            text = path.read_text(encoding="utf-8")
            grown = 0
            for header, hunk in re.findall(r"^(@@ .*)\n((?:[ +-].*\n)+)", hunks, re.M):
                before, after = (
                    "".join(line[1:] for line in hunk.splitlines(True) if line[0] in kinds) for kinds in (" -", " +")
                )
                if text.count(before) != 1:
                    yield f"{file} has {text.count(before)} places for\n{hunk}"
                line, lines = 1 + text[:text.find(before)].count("\n"), [part.count("\n") for part in (before, after)]
                if header != (right := f"@@ -{line - grown},{lines[0]} +{line},{lines[1]} @@"):
                    yield f"{file}: the header {header} does not fit its change; write {right}"
                grown += lines[1] - lines[0]
                text = text.replace(before, after)
            path.write_text(text, encoding="utf-8")
            self.is_built = False

    def call(self, command):
        return subprocess.run(
            command, shell=True, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=300
        )

    def failure(self, command, quoted, is_awaited):
        """The failure of a command as text, or an empty text if it works.

        With `is_awaited`, the next command shows the exit code of this one.
        """
        if command == "echo $?":
            return (
                "" if quoted.strip() == str(self.ended_with) else f"the command before ended with {self.ended_with}"
            )
        if command.startswith("cmake"):
            self.is_built = True
        elif not self.is_built and command.startswith("shardproof"):
            built = self.call("cmake --build build")
            if built.returncode != 0:
                return f"cannot be built:\n{built.stdout}{built.stderr}"
            self.is_built = True
        result = self.call(command)
        if changed := re.search(r"&& cd (\S+)$", command):
            self.directory = (self.directory / changed[1]).resolve()
        self.has_copied |= command.startswith("cp ")
        self.ended_with = result.returncode
        self.ran += 1
        if result.returncode != 0 and not is_awaited:
            return f"ended with {result.returncode}:\n{result.stdout}{result.stderr}"
        printed = result.stdout.replace(str(self.home), HOME)
        if quoted and stable(printed) != stable(quoted):
            return f"printed\n{stable(printed)}\n  the page says\n{stable(quoted)}"
        return ""


def stable(text):
    return re.sub(r"\brank \d+", "rank R", without_volatile(text))  # which rank's error comes first depends on timing


def feature_failures(root, page):
    """Features that the page's table lacks or has twice, and features that do not exist."""
    declarations = [root / "harness/protocol/feature.hpp", *(root / "harness/scenario/plan").glob("*.hpp")]
    features = [
        name
        for file in declarations
        for name in re.findall(r'constexpr Feature [\w:]+[({]\s*"(\w+)"', file.read_text(encoding="utf-8"))
    ]
    rows = re.findall(r"^\| (`.*?) \|", page[page.index("\n| feature |") :], re.M)
    listed = re.findall(r"`(\w+)`", " ".join(rows))
    return [
        f"the page's table has the feature {name} {listed.count(name)} times, not {int(name in features)}"
        for name in {*features, *listed}
        if name not in features or listed.count(name) != 1
    ]


def main(root, build, generator, compiler, name):
    page = (root / "docs" / name).read_text(encoding="utf-8")
    failures = feature_failures(root, page) if name == "plug-in-an-engine.md" else []
    with tempfile.TemporaryDirectory() as scratch:
        reader = Reader(pathlib.Path(scratch).resolve(), PAGES[name], build, generator, compiler)
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page, re.S | re.M):
            failures += reader.follow(language, block)
    if reader.ran == 0:
        failures.append(f"no command found in docs/{name}")
    for failure in failures:
        print("FAIL", failure)
    print(f"{reader.ran} commands")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:]))
