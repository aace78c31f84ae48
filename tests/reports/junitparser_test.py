"""Checks that the package junitparser reads exported JUnit XML as it was meant.

    junitparser_test.py PRINT_SAMPLE_EXPORTS

Without the package, the test installs it into an environment of its own. Where that is impossible, it ends with 77:
skipped.
"""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import venv

PACKAGE = "junitparser==5.0.3"
SKIPPED = 77


def read_exports(program):
    import junitparser  # of the environment
    from junitparser import xunit2

    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([program, scratch], check=True)
        for file in sorted(pathlib.Path(scratch).glob("*/junit.xml")):
            junitparser.JUnitXml.fromfile(str(file))
        sample = junitparser.JUnitXml.fromfile(f"{scratch}/sample/junit.xml")
        retried = xunit2.JUnitXml.fromfile(f"{scratch}/retried/junit.xml")

    cases = {case.name: case for suite in sample for case in suite}
    kinds = {name: [type(result).__name__ for result in case.result] for name, case in cases.items()}
    assert kinds["mine/passed[W=2]"] == [], kinds
    assert kinds["mine/failed[W=2]"] == ["Failure"], kinds
    assert kinds["mine/crashed[W=2]"] == ["Error"], kinds
    assert kinds["mine/waived[W=2]"] == ["Skipped"], kinds
    failed = cases["mine/failed[W=2]"]
    assert failed.classname == "mine" and failed.time == 0.012, (failed.classname, failed.time)
    failure = failed.result[0]
    assert failure.type == "failed" and "105000000 <= 85000000" in failure.message, failure.message
    assert "FAIL mine/failed[W=2]" in failure.text and "\n  again: shardproof run" in failure.text, failure.text
    suite = next(suite for suite in sample if suite.name == "mine")
    properties = {one.name: one.value for one in suite.properties()}
    assert properties["run_id"] == "2030-01-02T03-04-05-7" and properties["subject"] == "fully_shard", properties
    assert properties["seed"] == str(2**64 - 1) and properties["machine.cpu"] == "some cpu", properties

    attempts = {case.name: case for suite in retried for case in suite}
    again, never = attempts["mine/again[W=2]"], attempts["mine/never[W=2]"]
    assert again.is_passed and not never.is_passed
    assert [one.message[-6:] for one in again.iterchildren(xunit2.FlakyFailure)] == ["1 == 2"]
    assert [one.message[-6:] for one in never.iterchildren(xunit2.RerunFailure)] == ["1 == 2"]
    print(f"{len(cases) + len(attempts)} cases")


def read_in_environment(program):
    """Runs this test again in an environment that has the package."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            venv.create(scratch, with_pip=True)
            install = [f"{scratch}/bin/pip", "install", "--no-input", "--disable-pip-version-check", "-q", PACKAGE]
            subprocess.run(install, check=True, capture_output=True, text=True, timeout=120)
        except (subprocess.SubprocessError, OSError) as error:
            reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
            print(f"skipped: {PACKAGE} is not installed, and cannot be: {reason}")
            return SKIPPED
        return subprocess.run([f"{scratch}/bin/python", "-B", __file__, program], check=False).returncode


def main(program):
    is_environment = sys.prefix != sys.base_prefix
    if importlib.util.find_spec("junitparser") is None and not is_environment:
        return read_in_environment(program)
    return read_exports(program)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
