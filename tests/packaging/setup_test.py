"""Tests of the set-up that ./run and ./test share: which commands it would give to root, on which machines."""

import pathlib
import subprocess
import tempfile
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
    """The lines that the script makes of these APT source files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, text in files.items():
            path = pathlib.Path(folder, name.replace("_", "."))
            path.write_text(text)
            paths.append(path)
        return subprocess.run(["awk", "-f", ROOT / "cmake/backports_source.awk", *paths], check=True, text=True, capture_output=True).stdout.splitlines()


def bash(script):
    """Runs a script that has sourced the set-up, and that may replace its functions."""
    return subprocess.run(["bash", "-c", f"set -euo pipefail; source '{ROOT}/cmake/setup.sh'; {script}"], text=True, capture_output=True)


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

    def test_keeps_a_key_that_stands_in_the_source(self):
        self.assertIn(" abc", backports_source(debian_sources=INLINE_KEY))

    def test_reads_one_line_sources(self):
        self.assertEqual(
            backports_source(sources_list="# deb http://old.example/debian bookworm main\ndeb [arch=amd64] http://mirror.example/debian bookworm main\n"),
            ["bookworm-backports.list", "deb [arch=amd64] http://mirror.example/debian bookworm-backports main"],
        )

    def test_adds_nothing_where_there_is_one(self):
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
        made = bash("on_bookworm() { true; }; backports_source() { printf 'x.list\\ndeb some where\\n'; }; install_commands g++ catch2")
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
        installed = "dpkg-query() { printf 'installed catch2 %s\\ninstalled g++ 1\\nconfig-files cmake 1\\n' \"$found\"; };"
        for version, missing in {"2.13.10-1": "catch2\ncmake\n", "3.7.1-0.4~bpo12+1": "cmake\n", "3.4.0-1": "cmake\n"}.items():
            with self.subTest(version):
                self.assertEqual(bash(f"found={version}; {installed} missing_packages catch2 g++ cmake").stdout, missing)

    def test_no_install_names_the_commands_and_runs_none(self):
        refused = bash(
            "missing_packages() { echo some-package; }; apt-get() { echo 'apt-get was called'; }; dpkg-query() { true; };"
            "ensure_packages no build; echo went on"
        )
        self.assertEqual(refused.returncode, 3)
        self.assertEqual(refused.stdout, "")
        self.assertIn("--no-install forbids it", refused.stderr)
        self.assertIn("apt-get install -y --no-install-recommends some-package\n", refused.stderr)

    def test_is_silent_when_nothing_is_missing(self):
        ready = bash("missing_packages() { true; }; install_commands() { exit 9; }; ensure_packages no build check; echo went on")
        self.assertEqual((ready.returncode, ready.stdout, ready.stderr), (0, "went on\n", ""))


class JunitCounts(unittest.TestCase):
    def counts(self, text):
        return subprocess.run(["awk", "-f", ROOT / "cmake/junit_counts.awk"], input=text, text=True, capture_output=True)

    def test_reads_what_ctest_writes(self):
        suite = '<?xml version="1.0"?>\n<testsuite name="x"\n\ttests="12"\n\tfailures="2"\n\tdisabled="1"\n\tskipped="3"\n\ttime="4"\n>\n<testcase name="tests=&quot;9&quot;"/>'
        self.assertEqual(self.counts(suite).stdout, "12 2 4\n")

    def test_refuses_what_is_no_report(self):
        self.assertNotEqual(self.counts("").returncode, 0)


if __name__ == "__main__":
    unittest.main()
