#!/usr/bin/env python3
"""Checks the manual pages and the completions that the build makes: the pages against `--help`, the completions in
their shells.

    manual_test.py PAGES LAUNCHER
"""
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

PAGES, LAUNCHER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
del sys.argv[1:3]


def help_of(*command):
    return subprocess.run([LAUNCHER, *command, "--help"], capture_output=True, text=True, check=True).stdout


COMMANDS = re.findall(r"^ {4}(\w+)", help_of().split("\nSubcommands:\n")[1].split("\n\n")[0], re.M)


def entries_of_help(*command):
    """The options of `--help` with their names of values, and their texts."""
    text = re.sub(r"\n {34}", " ", help_of(*command))
    text = re.sub(r"^( {4}-.{29}\S*) (?=\S)", r"\1  ", text, flags=re.M)  # after a long name
    found = re.findall(r"^ {4}(-\S*(?: \S+)?) {2,}(.*)", text, re.M)
    return {name: " ".join(words.split()).replace("`", "") for name, words in found}


def entries_of_page(name):
    """The same from the source of a page."""
    source = (PAGES / "man1" / f"{name}.1").read_text(encoding="utf-8")
    for escape, character in (
        (r"\fB", ""), (r"\fI", ""), (r"\fR", ""), (r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\(ti", "~"),
        (r"\(ha", "^"), (r"\&", ""), (r"\e", "\\"),
    ):
        source = source.replace(escape, character)
    found = re.findall(r"^\.TP\n(-.*)\n((?:[^.].*\n)+)", source, re.M)
    return {name.replace(", ", ","): " ".join(words.split()) for name, words in found}


class Manual(unittest.TestCase):
    def test_each_command_has_a_page(self):
        pages = {page.name for page in (PAGES / "man1").iterdir()}
        self.assertGreater(len(COMMANDS), 10)
        self.assertEqual(pages, {"shardproof.1", *(f"shardproof-{command}.1" for command in COMMANDS)})

    def test_a_page_has_the_options_of_the_help_with_their_texts(self):
        for command in ("", *COMMANDS):
            with self.subTest(command):
                shown = entries_of_help(*command.split())
                self.assertIn("-h,--help", shown)
                self.assertEqual(entries_of_page(f"shardproof-{command}".rstrip("-")), shown)

    def test_a_page_has_the_examples_and_exit_codes_of_the_help(self):
        for command in ("", *COMMANDS):
            with self.subTest(command):
                page = (PAGES / "man1" / f"shardproof-{command}.1".replace("-.", ".")).read_text(encoding="utf-8")
                plain = page.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(ga", "`")
                lines = re.findall(r"^ {4}(shardproof .*|[0-9]+(?:\+N)? +[A-Z].*)$", help_of(*command.split()), re.M)
                self.assertGreater(len(lines), 2)
                for line in lines:
                    self.assertIn(f"\n{line}\n", plain)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_has_no_complaint(self):
        for page in (PAGES / "man1").iterdir():
            checked = subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True)
            self.assertEqual((checked.stdout + checked.stderr, checked.returncode), ("", 0))


class Bash(unittest.TestCase):
    def complete(self, *words):
        """The words that bash offers for the last word."""
        script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shardproof; printf "%s\\n" "${COMPREPLY[@]}"'
        command = ["bash", "--norc", "-c", script, PAGES / "bash/shardproof", "shardproof", *words]
        done = subprocess.run(command, cwd=PAGES, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_a_shell_completes_shardproof_by_the_function(self):
        script = 'set -u; source "$0"; complete -p shardproof'
        shown = subprocess.run(
            ["bash", "-c", script, PAGES / "bash/shardproof"], capture_output=True, text=True, check=True
        )
        self.assertEqual((shown.stdout, shown.stderr), ("complete -F _shardproof shardproof\n", ""))

    def test_commands(self):
        self.assertEqual(self.complete("")[:len(COMMANDS)], COMMANDS)
        self.assertEqual(self.complete("expl"), ["explain", "explore"])
        self.assertEqual(self.complete("--v"), ["--version"])

    def test_options_are_those_of_the_help(self):
        for command in COMMANDS:
            names = [name for entry in entries_of_help(command) for name in entry.split()[0].split(",")]
            self.assertEqual(self.complete(command, "-"), names)
        self.assertEqual(self.complete("run", "--sch"), ["--scheduler"])

    def test_values(self):
        self.assertEqual(self.complete("run", "--color", "a"), ["auto", "always"])
        self.assertEqual(self.complete("play", "--color", "=", "n"), ["never"])  # bash divides --color=n
        self.assertEqual(self.complete("play", "--color", "="), ["auto", "always", "never"])
        self.assertEqual(self.complete("run", "--order", ""), ["listed", "random"])
        self.assertEqual(self.complete("run", "--fabric", ""), ["shm", "thread", "tcp", "mpi", "nccl"])
        self.assertEqual(self.complete("run", "--repeat", ""), [])
        self.assertEqual(self.complete("diff", "--fail-on", "fixed,new_f"), ["fixed,new_failure"])

    def test_files_and_directories(self):
        self.assertEqual(self.complete("diff", "m"), ["man1"])
        self.assertEqual(self.complete("diff", "man1", "man1/shardproof.")[0], "man1/shardproof.1")
        self.assertEqual(self.complete("run", "--waivers", "man1/shardproof-r"), ["man1/shardproof-run.1"])
        self.assertEqual(self.complete("run", "--out", "man1/shardproof-r"), [])
        self.assertEqual(self.complete("run", "--out", "m"), ["man1"])
        self.assertEqual(self.complete("run", "m"), [])  # a filter


ZSH_SETUP = """\
PS1= PS2=
fpath=('{pages}/zsh' $fpath)
cd '{pages}'
autoload -Uz compinit
compinit -u -D
offered=()
compadd() {{
  local -a words
  if [[ " $* " != *' -'[ADO]' '* ]]; then
    builtin compadd -O words "$@"
    offered+=($words)
  fi
  builtin compadd "$@"
}}
answer() {{
  print -r -- "$BUFFER|${{(u)offered}}" > '{answers}'
  offered=()
  BUFFER=
}}
zle -N answer
bindkey '^X' answer
"""


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(unittest.TestCase):
    """An interactive shell on its own terminal. It answers what Tab has made of a line, and what it has offered."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.answers = pathlib.Path(folder.name) / "answers"
        os.mkfifo(cls.answers)
        setup = pathlib.Path(folder.name) / "setup"
        setup.write_text(ZSH_SETUP.format(pages=PAGES, answers=cls.answers))
        cls.terminal, other_end = pty.openpty()
        cls.shell = subprocess.Popen(
            ["zsh", "-f", "-i"], stdin=other_end, stdout=other_end, stderr=other_end, start_new_session=True,
            env={**os.environ, "TERM": "dumb"},
        )
        os.close(other_end)
        cls.addClassCleanup(cls.shell.wait)
        cls.addClassCleanup(cls.shell.kill)
        threading.Thread(target=cls.read_the_terminal, daemon=True).start()
        os.write(cls.terminal, f"source '{setup}'\n".encode())

    @classmethod
    def read_the_terminal(cls):
        """The shell would stop at a full terminal."""
        try:
            while os.read(cls.terminal, 4096):
                pass
        except OSError:
            pass  # the shell has ended

    def complete(self, line):
        os.write(self.terminal, f"{line}\t\x18".encode())
        made, offered = self.answers.read_text().rstrip("\n").split("|")
        return made, offered.split()

    def test_commands(self):
        self.assertEqual(sorted(self.complete("shardproof ")[1]), sorted(COMMANDS))
        self.assertEqual(self.complete("shardproof sh")[0], "shardproof sh")
        self.assertEqual(self.complete("shardproof stat")[0], "shardproof statement ")

    def test_options_are_those_of_the_help(self):
        for command in COMMANDS:
            names = {name for entry in entries_of_help(command) for name in entry.split()[0].split(",")}
            offered = {name.rstrip("=") for name in self.complete(f"shardproof {command} -")[1]}
            self.assertEqual({name for name in offered if name.startswith("-")}, names)
        self.assertEqual(self.complete("shardproof run --sch")[0], "shardproof run --scheduler=")

    def test_values(self):
        self.assertEqual(self.complete("shardproof run --color=")[1], ["auto", "always", "never"])
        self.assertEqual(self.complete("shardproof play x --color n")[0], "shardproof play x --color never ")
        # zsh removes the comma again if another word comes next
        self.assertEqual(self.complete("shardproof diff --fail-on fixed,new_f")[0],
                         "shardproof diff --fail-on fixed,new_failure,")

    def test_files_and_directories(self):
        self.assertEqual(self.complete("shardproof diff man1/shardproof-r")[0],
                         "shardproof diff man1/shardproof-run.1 ")
        self.assertEqual(self.complete("shardproof run --out=m")[0], "shardproof run --out=man1/")


if __name__ == "__main__":
    unittest.main()
