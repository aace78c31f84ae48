"""Tests of cmake/setup.sh, the common functions of ./run and ./test: for example, the commands that root would run on
different machines."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/some.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""

INLINE_KEY = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
"""


def backports_source(**files):
    """The lines that the script writes for these APT source files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, text in files.items():
            path = pathlib.Path(folder, name.replace("_", "."))
            path.write_text(text)
            paths.append(path)
        return subprocess.run(
            ["awk", "-f", ROOT / "cmake/backports_source.awk", *paths], check=True, text=True, capture_output=True
        ).stdout.splitlines()


def bash(script):
    """Runs a script that has sourced the set-up, and that may replace its functions."""
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail; source '{ROOT}/cmake/setup.sh'; {script}"], text=True, capture_output=True
    )


class BackportsSource(unittest.TestCase):
    def test_keeps_mirror_and_key_of_the_machine(self):
        self.assertEqual(
            backports_source(debian_sources=DEB822),
            [
                "bookworm-backports.sources",
                "Types: deb",
                "URIs: http://mirror.example/debian",
                "Signed-By: /usr/share/keyrings/some.gpg",
                "Suites: bookworm-backports",
                "Components: main",
            ],
        )

    def test_keeps_a_key_in_the_text_of_the_source(self):
        self.assertIn(" abc", backports_source(debian_sources=INLINE_KEY))

    def test_reads_one_line_sources(self):
        self.assertEqual(
            backports_source(
                sources_list="# deb http://old.example/debian bookworm main\n"
                "deb [arch=amd64] http://mirror.example/debian bookworm main\n"
            ),
            ["bookworm-backports.list", "deb [arch=amd64] http://mirror.example/debian bookworm-backports main"],
        )

    def test_adds_nothing_to_a_machine_with_backports(self):
        for name, text in {
            "a_list": "deb http://mirror.example/debian bookworm-backports main\n",
            "b_sources": DEB822.replace("bookworm bookworm-updates", "bookworm-backports"),
        }.items():
            with self.subTest(name):
                self.assertEqual(backports_source(debian_sources=DEB822, **{name: text}), [])

    def test_a_disabled_source_does_not_count(self):
        off = "Enabled: no\n" + DEB822.replace("bookworm bookworm-updates", "bookworm-backports")
        self.assertEqual(backports_source(debian_sources=DEB822, off_sources=off)[0], "bookworm-backports.sources")

    def test_adds_nothing_for_other_releases(self):
        self.assertEqual(backports_source(debian_sources=DEB822.replace("bookworm", "trixie")), [])


class Install(unittest.TestCase):
    def test_takes_only_catch2_from_the_backports(self):
        made = bash(
            "on_bookworm() { true; }; backports_source() { printf 'x.list\\ndeb some where\\n'; };"
            "install_commands g++ catch2"
        )
        self.assertEqual(
            made.stdout.splitlines(),
            [
                "cat >/etc/apt/sources.list.d/x.list <<'END'",
                "deb some where",
                "END",
                "apt-get update",
                "apt-get install -y --no-install-recommends g++ catch2/bookworm-backports",
            ],
        )

    def test_needs_no_backports_elsewhere(self):
        made = bash("on_bookworm() { false; }; backports_source() { exit 9; }; install_commands catch2")
        self.assertEqual(made.stdout, "apt-get update\napt-get install -y --no-install-recommends catch2\n")

    def test_an_old_catch2_is_missing(self):
        installed = (
            "dpkg-query() { printf 'installed catch2 %s\\ninstalled g++ 1\\nconfig-files cmake 1\\n' \"$found\"; };"
        )
        for version, missing in {
            "2.13.10-1": "catch2\ncmake\n",
            "3.7.1-0.4~bpo12+1": "cmake\n",
            "3.4.0-1": "cmake\n",
        }.items():
            with self.subTest(version):
                self.assertEqual(
                    bash(f"found={version}; {installed} missing_packages catch2 g++ cmake").stdout, missing
                )

    def test_no_install_prints_the_commands_and_runs_none(self):
        refused = bash(
            "missing_packages() { echo some-package; }; apt-get() { echo 'apt-get was called'; };"
            "dpkg-query() { true; }; ensure_packages no build; echo went on"
        )
        self.assertEqual(refused.returncode, 3)
        self.assertEqual(refused.stdout, "")
        self.assertIn("--no-install forbids it", refused.stderr)
        self.assertIn("apt-get install -y --no-install-recommends some-package\n", refused.stderr)

    def test_is_silent_when_nothing_is_missing(self):
        ready = bash(
            "missing_packages() { true; }; install_commands() { exit 9; }; ensure_packages no build check; echo went on"
        )
        self.assertEqual((ready.returncode, ready.stdout, ready.stderr), (0, "went on\n", ""))


# A Python that makes environments at once. Their pip only notes its arguments in the file `calls`.
PYTHON = r"""#!/bin/sh
case "$*" in
  "-m venv "*)
    mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
    {
      printf '#!/bin/sh\necho "pip $*" >>"%s/calls"\n[ -z "$PIP_FAILS" ] || { echo no wheel; exit 1; }\n' "$3"
      printf 'echo "$TORCH 0.1.0" >"%s/installed"; : >"%s/bin/shardproof-pytorch-worker"\n' "$3" "$3"
      printf 'chmod +x "%s"/bin/*\n' "$3"
    } >"$3/bin/pip"
    chmod +x "$3/bin/pip" ;;
  "-m pip --version") [ -x "$(dirname "$0")/pip" ] ;;
  *importlib.metadata*) cat "$(dirname "$0")/../installed" ;;
  *ensurepip*) [ -z "$NO_VENV" ] ;;
esac
"""


class PyTorch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name, "a tree")
        self.home = self.tree / "build/pytorch"
        (self.tree / "cmake").mkdir(parents=True)
        (self.tree / "cmake/setup.sh").write_text((ROOT / "cmake/setup.sh").read_text())
        package = self.tree / "fixtures/pytorch"
        (package / "src").mkdir(parents=True)
        (package / "pyproject.toml").write_text((ROOT / "fixtures/pytorch/pyproject.toml").read_text())
        self.source = package / "src/worker.py"
        self.source.write_text("first\n")
        (self.tree / "python3").write_text(PYTHON)
        (self.tree / "python3").chmod(0o755)

    def ensure(self, allowed="yes", **environment):
        values = {"PATH": f"{self.tree}:/usr/bin:/bin", "TORCH": "2.15.0", **environment}
        script = (
            "set -euo pipefail; source cmake/setup.sh; ensure_packages() { echo packages \"$@\"; };"
            "ensure_pytorch \"$0\"; echo went on"
        )
        return subprocess.run(
            ["bash", "-c", script, allowed], cwd=self.tree, env=values, text=True, capture_output=True
        )

    def pip_calls(self):
        return (self.home / "calls").read_text().splitlines()

    def test_prints_the_size_and_is_silent_once_it_is_installed(self):
        made = self.ensure()
        self.assertEqual((made.returncode, made.stdout), (0, "went on\n"), made.stderr)
        self.assertIn("PyTorch 2.15.0 is not installed in build/pytorch; its wheel is 0.54 GB", made.stderr)
        self.assertEqual(
            self.pip_calls(), [f"pip install --no-input --disable-pip-version-check {self.home}/new[pytorch]"]
        )
        again = self.ensure()
        self.assertEqual((again.returncode, again.stdout, again.stderr), (0, "went on\n", ""))
        self.assertEqual(self.ensure("no").stderr, "")

    def test_no_install_prints_the_commands_and_runs_none(self):
        refused = self.ensure("no")
        self.assertEqual((refused.returncode, refused.stdout), (3, ""))
        self.assertFalse(self.home.exists())
        self.assertIn("--no-install forbids this script to install it", refused.stderr)
        commands = refused.stderr.split("run:\n\n")[1]
        subprocess.run(
            ["bash", "-ec", commands], check=True, env={"PATH": f"{self.tree}:/usr/bin:/bin", "TORCH": "2.15.0"}
        )
        self.assertEqual(self.ensure("no").stderr, "")

    def test_a_changed_package_is_installed_again(self):
        self.ensure()
        self.source.write_text("second\n")
        refused = self.ensure("no")
        self.assertEqual(refused.returncode, 3)
        self.assertIn("does not match this tree", refused.stderr)
        self.assertEqual(self.ensure().returncode, 0)
        self.assertEqual(len(self.pip_calls()), 2)
        self.assertEqual(self.ensure().stderr, "")

    def test_another_torch_is_replaced(self):
        self.ensure(TORCH="2.14.0")
        self.assertEqual(self.ensure("no").returncode, 3)
        self.assertEqual(self.ensure(TORCH="2.15.0+cpu").returncode, 0)
        self.assertEqual(self.ensure("no").stderr, "")

    def test_a_failed_installation_prints_why_and_is_tried_again(self):
        failed = self.ensure(PIP_FAILS="yes")
        self.assertEqual((failed.returncode, failed.stdout), (3, ""))
        self.assertIn("no wheel\nshardproof: installing PyTorch failed", failed.stderr)
        self.assertEqual(self.ensure().returncode, 0)

    def test_an_environment_without_its_python_is_replaced(self):
        self.ensure()
        (self.home / "bin/python").unlink()
        self.assertEqual(self.ensure("no").returncode, 3)
        self.assertTrue(self.home.exists())
        self.assertEqual(self.ensure().returncode, 0)
        self.assertEqual(len(self.pip_calls()), 1)

    def test_a_python_without_venv_is_a_missing_package(self):
        refused = self.ensure(NO_VENV="yes")
        self.assertEqual((refused.returncode, refused.stdout), (3, "packages yes pytorch\n"))
        self.assertIn("needs Python 3.11 or later", refused.stderr)

    def test_an_environment_that_another_call_has_made_meanwhile_is_kept(self):
        """The other call gets the lock after this call has found no environment."""
        other = (
            "flock() { unset -f flock; bash -c 'source cmake/setup.sh; ensure_pytorch yes' 2>other; flock \"$@\"; };"
        )
        script = f"set -euo pipefail; source cmake/setup.sh; {other} ensure_pytorch yes"
        values = {"PATH": f"{self.tree}:/usr/bin:/bin", "TORCH": "2.15.0"}
        for change, installed in (("first\n", 1), ("second\n", 2)):  # first without, then with an older environment
            self.source.write_text(change)
            late = subprocess.run(["bash", "-c", script], cwd=self.tree, env=values, text=True, capture_output=True)
            self.assertEqual((late.returncode, late.stderr), (0, ""))
            self.assertIn("This script runs:", (self.tree / "other").read_text())
            self.assertEqual(len(self.pip_calls()), installed)

    def test_the_users_own_environment_is_not_changed(self):
        left = self.ensure(SHARDPROOF_PYTORCH="/nowhere")
        self.assertEqual((left.stdout, left.stderr), ("went on\n", ""))
        self.assertFalse(self.home.exists())


class Run(unittest.TestCase):
    """The scripts' handling of their arguments, in a tree whose set-up only reports its calls."""

    SETUP = """
setup_failed=3
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pytorch_package=$root/fixtures/pytorch
say() { printf '%s\\n' "$*" >&2; }
ensure_packages() { echo packages "$@"; }
ensure_pytorch() { echo pytorch "$@"; }
configure_and_build() { echo build "${@:3}"; }
pytorch_environment() { printf '%s' "$root/build/pytorch"; }
has_pytorch() { [[ -e $root/build/pytorch/bin/python ]]; }
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.put("cmake/setup.sh", self.SETUP)
        for script in ("run", "test", "scripts/test-pytorch", "bench/pytorch"):
            self.put(script, (ROOT / script).read_text())
        self.put("build/bin/shardproof", '#!/bin/sh\necho shardproof "$@"\n')
        self.waivers = self.tree / "fixtures/pytorch/waivers.json"

    def put(self, name, text):
        file = self.tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def output_of(self, script, *arguments):
        done = subprocess.run([self.tree / script, *arguments], text=True, capture_output=True, check=True)
        return done.stdout.splitlines()

    def test_only_the_subject_pytorch_installs_pytorch(self):
        for arguments in (
            (),
            ("overlap", "--ranks", "2"),
            ("--subject", "reference"),
            ("--worker", "w", "--subject", "pytorch"),
            ("pytorch",),
        ):
            with self.subTest(arguments):
                output = self.output_of("run", *arguments)
                self.assertEqual(output[0], "packages yes build")
                self.assertNotIn("pytorch yes", output)
                self.assertEqual(output[-1], " ".join(("shardproof run", *arguments)))
        for arguments in (("--subject", "pytorch"), ("overlap", "--subject=pytorch", "--ranks", "2")):
            with self.subTest(arguments):
                output = self.output_of("run", *arguments)
                self.assertIn("pytorch yes", output)
                self.assertEqual(output[-2], "build shardproof_package")
                self.assertEqual(output[-1], " ".join(("shardproof run", *arguments, "--profile eager")))
        self.assertIn("pytorch no", self.output_of("run", "--no-install", "--subject", "pytorch"))

    def test_help_is_printed_before_anything_is_installed_or_built(self):
        for script in ("run", "test"):
            for option in ("--help", "-h"):
                with self.subTest(script, option=option):
                    output = self.output_of(script, "--no-install", option)
                    self.assertEqual(output[0].split()[0], f"./{script}")
                    self.assertEqual([line for line in output if line.startswith(("packages", "build"))], [])
        self.assertEqual(self.output_of("run", "--help")[-1], "shardproof run --help")
        (self.tree / "build/bin/shardproof").unlink()
        self.assertIn("after the first build", self.output_of("run", "--help")[-1])

    def test_words_after_two_dashes_are_filters(self):
        self.put("fixtures/pytorch/waivers.json", "{}")
        for arguments in (
            ("--", "--no-install"),
            ("--", "--subject=pytorch"),
            ("--", "--subject", "pytorch"),
            ("overlap", "--", "--", "-h"),
        ):
            with self.subTest(arguments):
                output = self.output_of("run", *arguments)
                self.assertNotIn("pytorch yes", output)
                self.assertEqual(output[-1], " ".join(("shardproof run", *arguments)))
        for arguments in (("--worker", "w"), ("--waivers", "mine")):
            with self.subTest(arguments):
                output = self.output_of("run", "--subject", "pytorch", "--", *arguments)
                self.assertIn("pytorch yes", output)
                self.assertEqual(
                    output[-1],
                    f"shardproof run --subject pytorch --waivers {self.waivers} --profile eager "
                    f"-- {' '.join(arguments)}",
                )

    def test_known_deviations_are_waived_by_default(self):
        self.put("fixtures/pytorch/waivers.json", "{}")
        waived = f"shardproof run --subject pytorch --waivers {self.waivers} --profile eager"
        self.assertEqual(self.output_of("run", "--subject", "pytorch")[-1], waived)
        for arguments in (("--subject", "pytorch", "--waivers", "mine", "--profile=full"), ("--subject", "reference"),
                          ("--waivers=mine", "--profile", "core", "--subject", "pytorch")):
            self.assertEqual(self.output_of("run", *arguments)[-1], " ".join(("shardproof run", *arguments)))

    def test_without_pytorch_its_tests_print_one_line(self):
        done = subprocess.run([self.tree / "scripts/test-pytorch"], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("PyTorch is not tested", done.stderr)

    def test_tests_of_pytorch_run_its_package_and_the_suites(self):
        self.put("build/pytorch/bin/python", '#!/bin/sh\necho python "$@" in "$(basename "$PWD")"\n')
        (self.tree / "fixtures/pytorch/tests").mkdir(parents=True)
        self.put("docs/pytorch.md", "")
        for run in ("pytorch", "pytorch_replicate"):
            statement = f"shardproof statement {self.tree}/build/pytorch-results/{run}\n"
            self.put(f"docs/statements/{run}.md", statement)
        output = self.output_of("scripts/test-pytorch", "--no-install")
        self.assertEqual(output[:2], ["pytorch no", "python -m unittest discover --quiet in tests"])
        compared = f"python -B {self.tree}/scripts/pytorch_settings.py {self.tree}"
        suites = (
            f"shardproof run --subject pytorch --quiet --overwrite --out {self.tree}/build/pytorch-results/pytorch "
            "--profile eager"
        )
        self.assertEqual([line.partition(" in ")[0] for line in output[-2:]], [suites, compared])
        compiled = ["--profile compiled" in line for line in output]
        composable = ["replicate-worker" in line for line in output]
        self.assertEqual((sum(compiled), sum(composable), sum(map(all, zip(compiled, composable)))), (2, 2, 1))
        self.assertIn(f"{compared} --all in ", "".join(self.output_of("scripts/test-pytorch", "--settings")))
        self.put("build/pytorch/bin/python", "#!/bin/sh\nexit 1\n")
        failed = subprocess.run([self.tree / "scripts/test-pytorch"], text=True, capture_output=True)
        self.assertEqual(failed.returncode, 1)
        self.assertEqual(failed.stdout.splitlines()[-1], suites)

    def test_the_scenarios_of_the_deviations_page_are_played(self):
        self.put("build/pytorch/bin/python", "#!/bin/sh\n")
        (self.tree / "fixtures/pytorch/tests").mkdir(parents=True)
        self.put(
            "docs/pytorch.md",
            "[`a.json`](pytorch/a.json): one\n[`b.json`](pytorch/b.json), `--ranks 4`: [`c.json`](pytorch/c.json)\n",
        )
        played = [
            f"play {self.tree}/docs/pytorch/{one} --subject reference,pytorch"
            for one in ("a.json --ranks 2", "b.json --ranks 4", "c.json --ranks 2")
        ]
        answer = '#!/bin/sh\necho "$@" >>"$0.calls"\ncase "$*" in play*) echo "verdict  alike%s"; exit %d ;; esac\n'
        for words, status, ended in (("", 1, 0), (": neither plays it to its end", 0, 0), ("", 0, 1), ("", 3, 1)):
            with self.subTest(words, status=status):
                calls = self.tree / "build/bin/shardproof.calls"
                calls.unlink(missing_ok=True)
                self.put("build/bin/shardproof", answer % (words, status))
                done = subprocess.run([self.tree / "scripts/test-pytorch"], text=True, capture_output=True)
                self.assertEqual(done.returncode, ended, done.stderr)
                self.assertEqual(
                    sorted(line for line in calls.read_text().splitlines() if line.startswith("play")), played
                )
                self.assertEqual("a.json shows no deviation" in done.stderr, ended == 1)

    def test_scenarios_that_capture_values_are_compared(self):
        self.put("build/pytorch/bin/python", "#!/bin/sh\n")
        (self.tree / "fixtures/pytorch/tests").mkdir(parents=True)
        self.put("docs/pytorch.md", "")
        for name, calls in (("values", ["capture"]), ("times", ["forward"]), ("hooks", ["extend", "capture"])):
            self.put(f"docs/scenarios/{name}.json", json.dumps({"plan": {"mesh": {"shape": [2, 2]}}, "calls": calls}))
        for words, status, ended in (("", 0, 0), (": neither plays it to its end", 0, 1), ("", 1, 1)):
            with self.subTest(words, status=status):
                calls = self.tree / "build/bin/shardproof.calls"
                calls.unlink(missing_ok=True)
                self.put(
                    "build/bin/shardproof",
                    f'#!/bin/sh\necho "$@" >>"$0.calls"\n'
                    f'case "$*" in play*) echo "verdict{words}"; exit {status} ;; esac\n',
                )
                done = subprocess.run([self.tree / "scripts/test-pytorch"], text=True, capture_output=True)
                self.assertEqual(done.returncode, ended, done.stderr)
                played = [line for line in calls.read_text().splitlines() if line.startswith("play")]
                self.assertEqual(
                    played, [f"play {self.tree}/docs/scenarios/values.json --ranks 4 --subject reference,pytorch"]
                )
                self.assertEqual("values.json: the engines differ" in done.stderr, ended == 1)

    def test_unknown_arguments_are_refused(self):
        self.put("build/pytorch/bin/python", "#!/bin/sh\n")
        for script in ("scripts/test-pytorch", "bench/pytorch"):
            for arguments in (("--no-instal",), ("--no-install", "overlap")):
                with self.subTest(script, arguments=arguments):
                    refused = subprocess.run([self.tree / script, *arguments], text=True, capture_output=True)
                    self.assertEqual((refused.returncode, refused.stdout), (2, ""))
                    self.assertIn(f"{arguments[-1]}: {script} takes --no-install", refused.stderr)

    def test_all_and_a_selection_of_tests_exclude_each_other(self):
        refused = subprocess.run([self.tree / "test", "--all", "-R", "fabric"], text=True, capture_output=True)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertEqual(
            refused.stderr, "shardproof: --all runs every test; leave it out to select tests with -R fabric\n"
        )

    def test_options_that_select_tests_are_passed_to_ctest(self):
        self.put("bin/ctest", '#!/bin/sh\necho "ctest $*" >>"$0.calls"\n')
        values = {**os.environ, "PATH": f"{self.tree}/bin:{os.environ['PATH']}"}
        calls = self.tree / "bin/ctest.calls"
        for selection in (
            "-R fabric",
            "-R -x",
            "-E slow -L unit -LE gpu",
            "-I 1,5 --repeat until-fail:3",
            "--rerun-failed",
        ):
            with self.subTest(selection):
                subprocess.run([self.tree / "test", *selection.split()], env=values, text=True, capture_output=True)
                self.assertTrue(calls.read_text().endswith(f" {selection}\n"))
                calls.unlink()
        for arguments, output in (
            (
                "fabric",
                "./test takes options, not the word fabric; "
                "to run the tests with fabric in their names, write: ./test -R fabric",
            ),
            (
                "-R fabric cases",
                "./test takes options, not the word cases; "
                "to run the tests with cases in their names, write: ./test -R cases",
            ),
            ("--al", "./test has no option --al; ./test --help lists its options"),
            ("--all=yes", "./test has no option --all=yes; ./test --help lists its options"),
            ("-R", "-R takes a value; ./test --help shows it"),
        ):
            with self.subTest(arguments):
                refused = subprocess.run(
                    [self.tree / "test", *arguments.split()], env=values, text=True, capture_output=True
                )
                self.assertEqual((refused.returncode, refused.stdout), (2, ""))
                self.assertEqual(refused.stderr, f"shardproof: {output}\n")
                self.assertFalse(calls.exists())

    def test_a_measurement_with_no_install_installs_nothing(self):
        self.put("build/pytorch/bin/python", '#!/bin/sh\necho python "$@" >>"$0.calls"\nexit 1\n')
        refused = subprocess.run([self.tree / "bench/pytorch", "--no-install"], text=True, capture_output=True)
        self.assertEqual(refused.returncode, 3)
        self.assertIn("expecttest and numpy", refused.stderr)
        self.assertNotIn("pip", (self.tree / "build/pytorch/bin/python.calls").read_text())


class Progress(unittest.TestCase):
    """The messages of a build whose output goes into a file."""

    def output_of(self, lines, name="build"):
        done = bash(f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} | show_build {name}")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        return re.sub(r"\d+ s\)", "T s)", done.stderr).splitlines()

    def test_a_stage_begins_and_ends_with_a_line(self):
        self.assertEqual(
            self.output_of(
                ["[0/2] Re-checking globbed directories...", "[1/3] compiling a", "-- a message", "[3/3] linking b"]
            ),
            ["shardproof: building build (3 steps)", "shardproof: built build (3 steps, T s)"],
        )

    def test_nothing_to_do_is_a_line(self):
        self.assertEqual(
            self.output_of(["ninja: Entering directory `build'", "ninja: no work to do."]),
            ["shardproof: build is up to date"],
        )

    def test_errors_are_passed_on_and_the_stage_is_not_built(self):
        self.assertEqual(
            self.output_of(["[1/3] compiling a", "a.cpp:1: error", "ninja: build stopped: subcommand failed."]),
            ["shardproof: building build (3 steps)", "a.cpp:1: error", "ninja: build stopped: subcommand failed."],
        )


class Interruption(unittest.TestCase):
    def test_an_interrupted_build_does_not_report_a_failure(self):
        for command in ("cmake", "ninja"):
            with self.subTest(command), tempfile.TemporaryDirectory() as folder:
                tree = pathlib.Path(folder)
                (tree / "cmake").mkdir()
                (tree / "cmake/setup.sh").write_text((ROOT / "cmake/setup.sh").read_text())
                (tree / "CMakePresets.json").touch()
                (tree / "bin").mkdir()
                (tree / "bin/cmake").write_text("#!/bin/sh\n")
                # Ends as an interrupted Ninja or CMake does: with an exit code, and not by the signal.
                (tree / "bin" / command).write_text(
                    "#!/bin/bash\ntrap 'kill $!; exit 2' INT\nsleep 60 &\n: >started\nwait\n"
                )
                for program in (tree / "bin").iterdir():
                    program.chmod(0o755)
                script = (
                    f"set -euo pipefail; cd '{tree}'; source cmake/setup.sh;"
                    "configure_and_build default build; echo went on"
                )
                values = {**os.environ, "PATH": f"{tree}/bin:{os.environ['PATH']}"}
                # A caller in the background may ignore the signal, and its children inherit that.
                restore_signal = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
                with subprocess.Popen(
                    ["bash", "-c", script],
                    env=values,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    preexec_fn=restore_signal,
                ) as build:
                    while not (tree / "started").exists():
                        self.assertIsNone(build.poll())
                        time.sleep(0.01)
                    os.killpg(build.pid, signal.SIGINT)
                    out, err = build.communicate(timeout=60)
                self.assertEqual((build.returncode, out), (130, ""), err)
                self.assertNotIn("failed", err)


class JunitCounts(unittest.TestCase):
    def counts(self, text):
        return subprocess.run(
            ["awk", "-f", ROOT / "cmake/junit_counts.awk"], input=text, text=True, capture_output=True
        )

    def test_reads_what_ctest_writes(self):
        suite = (
            '<?xml version="1.0"?>\n<testsuite name="x"\n\ttests="12"\n\tfailures="2"\n\tdisabled="1"\n\tskipped="3"\n'
            '\ttime="4"\n>\n<testcase name="tests=&quot;9&quot;"/>'
        )
        self.assertEqual(self.counts(suite).stdout, "12 2 4\n")

    def test_refuses_a_text_that_is_not_a_report(self):
        self.assertNotEqual(self.counts("").returncode, 0)


if __name__ == "__main__":
    unittest.main()
