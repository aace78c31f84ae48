#!/usr/bin/env python3
"""Do the README and the guides tell the truth? Runs every command in them, in a folder of its own, and compares what
they quote.

    readme_test.py ROOT PROGRAM

PROGRAM has the cases of the README's own test and of its hang. The README calls it build/my_tests.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile


def expected_exit(words, quoted):
    """A broken engine or case fails, and beside a sound engine the broken one differs."""
    is_broken_one_of_two = any(
        "," in subject and "+" in subject for option, subject in zip(words, words[1:]) if option == "--subject"
    )
    shows_failure = re.search(r"^(FAIL|ERROR) ", quoted, re.M)
    return 1 if "--fault" in words or is_broken_one_of_two or shows_failure else 0


def commands(text):
    """Each `$ command` of the console blocks with the output quoted under it."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def without_volatile(text):
    """Chance decides which of several failed ranks comes first."""
    text = re.sub(r"^((?:FAIL|ERROR) \S+) +(rank \d+, )?[\d.]+ (ms|s)", r"\1 T", text, flags=re.M)
    text = re.sub(r"shardproof-out/[\d-]+/", "shardproof-out/RUN/", text)
    text = re.sub(r"\(\d+\.\d+ s\)", "(T s)", text)
    text = re.sub(r"(play it|find it): .*", r"\1: C", text)
    return re.sub(r"(report|found): \S+", r"\1: R", text).strip()


def agrees(printed, quoted):
    """A line `…` of what is quoted leaves out any number of lines."""
    pieces = [re.escape(piece) for piece in re.split(r"^…\n", without_volatile(quoted) + "\n", flags=re.M)]
    return re.fullmatch(r"(?:.*\n)*".join(pieces), without_volatile(printed) + "\n")


def untrue_commands(root, program, document):
    """The untrue commands of one document, and the number of all its commands."""
    failures, ran = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        # Commands name files as a reader in the root would, and so do their outputs; the reader's own test has a folder
        # `build`, too.
        (pathlib.Path(scratch) / "docs").symlink_to(root / "docs")
        build = pathlib.Path(scratch) / "build"
        build.mkdir()
        for entry in (root / "build").iterdir():
            (build / entry.name).symlink_to(entry)
        (build / "my_tests").symlink_to(program)
        environment = dict(os.environ, PATH=f"{root / 'build/bin'}:{os.environ['PATH']}")
        for command, quoted in commands(document.read_text(encoding="utf-8")):
            words = shlex.split(command)
            if words[0] == "./run":
                words[:1] = [str(root / "run"), "--no-install"]
            result = subprocess.run(words, cwd=scratch, env=environment, capture_output=True, text=True, timeout=300)
            ran += 1
            expected = expected_exit(words, quoted)
            if result.returncode != expected:
                failures.append(
                    f"{command}\n  ended with {result.returncode}, not {expected}:\n{result.stdout}{result.stderr}"
                )
            elif quoted and not agrees(result.stdout, quoted):
                failures.append(
                    f"{command}\n  printed\n{without_volatile(result.stdout)}\n  {document.name} says\n{without_volatile(quoted)}"
                )

    if ran == 0:
        failures.append(f"no command found in {document.name}")
    return failures, ran


def dead_links(document):
    prose = re.sub(
        r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )  # a lambda is no link
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", prose)
    return [
        f"{document.name}: the link to {target} leads nowhere"
        for target in targets
        if not (document.parent / target).exists()
    ]


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
        untrue, count = untrue_commands(root, program, document)
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
        failures.append("the line that README.md's hang is made of is not in tests/readme/skipped_barrier.cpp")

    for failure in failures:
        print("FAIL", failure)
    print(f"{ran} commands")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(path).resolve() for path in sys.argv[1:])))
