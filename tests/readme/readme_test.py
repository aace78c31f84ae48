#!/usr/bin/env python3
"""Does the README tell the truth? Runs every command in it, in a folder of its own, and compares what it quotes.

    readme_test.py ROOT
"""
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

EXPECTED_EXIT = {"--fault": 1}  # a broken engine fails


def commands(text):
    """Each `$ command` of the console blocks with the output quoted under it."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def without_volatile(text):
    text = re.sub(r"\(\d+\.\d+ s\)", "(T s)", text)
    return re.sub(r"report: \S+", "report: R", text).strip()


def main(root):
    readme = (root / "README.md").read_text(encoding="utf-8")
    failures, ran = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        for command, quoted in commands(readme):
            words = shlex.split(command)
            if words[0] in ("./run", "build/bin/shardproof"):
                words[0] = str(root / words[0])
            if words[0].endswith("/run"):
                words.insert(1, "--no-install")
            result = subprocess.run(words, cwd=scratch, capture_output=True, text=True, timeout=300)
            ran += 1
            expected = next((code for option, code in EXPECTED_EXIT.items() if option in words), 0)
            if result.returncode != expected:
                failures.append(f"{command}\n  ended with {result.returncode}, not {expected}:\n{result.stdout}{result.stderr}")
            elif quoted and without_volatile(result.stdout) != without_volatile(quoted):
                failures.append(f"{command}\n  printed\n{without_volatile(result.stdout)}\n  the README says\n{without_volatile(quoted)}")

    example = re.search(r"```cpp\n(.*?)```", readme, re.S).group(1)
    if example != (root / "tests/packaging/consumer/my_tests.cpp").read_text(encoding="utf-8"):
        failures.append("the example is not the program that tests/packaging builds")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", readme):
        if not (root / target).exists():
            failures.append(f"the link to {target} leads nowhere")
    if ran == 0:
        failures.append("no command found in README.md")

    for failure in failures:
        print("FAIL", failure)
    print(f"{ran} commands")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
