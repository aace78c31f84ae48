#!/usr/bin/env python3
"""Checks the README and the guides: runs every command in them, in a temporary folder, and compares its output with the
quoted output.

    readme_test.py ROOT PROGRAM

PROGRAM has the cases of the README's test and of its hang. The README calls it build/my_tests.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile


def expected_exit(arguments, quoted):
    """The exit code of a command. A broken engine or case fails, and a broken engine differs from a correct one."""
    is_broken_one_of_two = any(
        "," in subject and "+" in subject for option, subject in zip(arguments, arguments[1:]) if option == "--subject"
    )
    shows_failure = re.search(r"^(FAIL|ERROR) ", quoted, re.M)
    return 1 if "--fault" in arguments or is_broken_one_of_two or shows_failure else 0


def commands(text):
    """Each `$ command` of the console blocks, with its quoted output."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def without_volatile(text):
    """Removes times, folders and the number of the first failed rank, which differ from run to run. Also removes the
    slowest cases, which a slow run lists."""
    text = re.sub(r"^slowest:\n(?: +[\d.]+ m?s  .*\n)+", "", text, flags=re.M)
    text = re.sub(r"^((?:FAIL|ERROR) \S+) +(rank \d+, )?[\d.]+ (ms|s)", r"\1 T", text, flags=re.M)
    text = re.sub(r"shardproof-out/[\d-]+/", "shardproof-out/RUN/", text)
    text = re.sub(r"\(\d+\.\d+ s\)", "(T s)", text)
    text = re.sub(r"(play it|find it): .*", r"\1: C", text)
    return re.sub(r"(report|found): \S+", r"\1: R", text).strip()


def agrees(printed, quoted):
    """Whether outputs are equal. A quoted line `…` means any number of lines."""
    pieces = [re.escape(piece) for piece in re.split(r"^…\n", without_volatile(quoted) + "\n", flags=re.M)]
    return re.fullmatch(r"(?:.*\n)*".join(pieces), without_volatile(printed) + "\n")


def command_failures(root, program, document):
    """The failures of one document's commands, and the number of its commands."""
    failures, ran = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        # Commands and their outputs name files relative to the tree's root. The reader's own test also has a folder
        # `build`.
        (pathlib.Path(scratch) / "docs").symlink_to(root / "docs")
        build = pathlib.Path(scratch) / "build"
        build.mkdir()
        for entry in (root / "build").iterdir():
            (build / entry.name).symlink_to(entry)
        (build / "my_tests").symlink_to(program)
        environment = dict(os.environ, PATH=f"{root / 'build/bin'}:{os.environ['PATH']}")
        for command, quoted in commands(document.read_text(encoding="utf-8")):
            arguments = shlex.split(command)
            if arguments[0] == "./run":
                arguments[:1] = [str(root / "run"), "--no-install"]
            result = subprocess.run(
                arguments, cwd=scratch, env=environment, capture_output=True, text=True, timeout=300
            )
            ran += 1
            expected = expected_exit(arguments, quoted)
            if result.returncode != expected:
                failures.append(
                    f"{command}\n  ended with {result.returncode}, not {expected}:\n{result.stdout}{result.stderr}"
                )
            elif quoted and not agrees(result.stdout, quoted):
                failures.append(
                    f"{command}\n  printed\n{without_volatile(result.stdout)}\n"
                    f"  {document.name} says\n{without_volatile(quoted)}"
                )

    if ran == 0:
        failures.append(f"no command found in {document.name}")
    return failures, ran


def dead_links(document):
    # Code blocks have no links: a lambda in C++ looks like one.
    prose = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", prose)
    return [
        f"{document.name}: the target of the link {target} does not exist"
        for target in targets
        if not (document.parent / target).exists()
    ]


def finish(failures, ran):
    """Prints the failures and the number of commands that ran. Returns the exit code. A page without commands fails."""
    if ran == 0:
        failures = [*failures, "no command found"]
    for failure in failures:
        print("FAIL", failure)
    print(f"{ran} commands")
    return 1 if failures else 0


def main(root, program):
    failures, ran = [], 0
    for document in (
        root / "README.md",
        *(
            root / "docs" / page
            for page in (
                "scenarios.md",
                "side-by-side.md",
                "generated-cases.md",
                "flat_shard.md",
                "replicate.md",
                "seeds.md",
            )
        ),
    ):
        untrue, count = command_failures(root, program, document)
        failures += untrue
        ran += count
    for document in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        failures += dead_links(document)

    for document, program in (("README.md", "my_tests.cpp"), ("docs/building.md", "own_main.cpp")):
        example = re.search(r"```cpp\n(.*?)```", (root / document).read_text(encoding="utf-8"), re.S).group(1)
        if example != (root / "tests/packaging/consumer" / program).read_text(encoding="utf-8"):
            failures.append(f"the example in {document} is not the program that tests/packaging builds")
    shown = re.search(r"Rank 1 skips a barrier: `([^`]*)`", (root / "README.md").read_text(encoding="utf-8"))
    if not shown or f"  {shown[1]}\n" not in (root / "tests/readme/skipped_barrier.cpp").read_text(encoding="utf-8"):
        failures.append("tests/readme/skipped_barrier.cpp does not have the line that README.md shows for its hang")
    return finish(failures, ran)


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(path).resolve() for path in sys.argv[1:])))
