"""An example engine that claims a feature passes all cases of it, and every other case is skipped with the features
that it does not claim.

All examples are of one kind."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

# The claims of each example, so that no example passes by claiming less.
ENGINES = {
    "c_engine": (("--subject", "C_EXAMPLE"), {"timeline", "serial", "hidden_memory", "thread_ranks"}),
    "my_engine": (("--worker", "CPP_EXAMPLE"), {"thread_ranks"}),
    "python_engine": (("--worker", "PYTHON_EXAMPLE"), set()),
}

KIND = "fully_shard"


def needs(case: dict, report: dict) -> list[str]:
    """The features without which the case is skipped."""
    return case["needs"] + ["thread_ranks"] * (report["worlds"][case["world"]]["fabric"] == "thread")


def wrong_verdicts(report: dict, claims: set[str]) -> list[str]:
    """Cases that neither passed nor were skipped for a feature that the engine does not claim."""
    found = []
    reasons = {skip["id"]: skip["reason"] for skip in report["skips"]}
    for case in report["cases"]:
        missing = [feature for feature in needs(case, report) if feature not in claims]
        begin = f"subject {report['subject']['name']} does not claim "
        if "generator" in case["params"] and not missing and case["verdict"] == "skipped":
            # A generated case knows its needs only after it has drawn its scenario.
            missing = reasons[case["id"]].removeprefix(begin).split(", ")
            if claimed := claims.intersection(missing):
                found.append(f"{case['id']}: skipped for {sorted(claimed)}, which the engine claims")
        if case["engine"] != KIND:
            missing = [f"the engine kind {case['engine']}; it claims {KIND}"]
        if case["verdict"] != ("skipped" if missing else "passed"):
            found.append(f"{case['id']}: {case['verdict']}")
        reason = begin + ", ".join(missing) if missing else None
        if reasons.get(case["id"]) != reason:
            found.append(f"{case['id']}: the reason is {reasons.get(case['id'])}, not {reason}")
    return found


def empty_claims(reports: list[dict], claims: set[str]) -> set[str]:
    """The kind if no case of it passed, and features that no passed case needs."""
    passed = [(case, report) for report in reports for case in report["cases"] if case["verdict"] == "passed"]
    return {KIND, *claims} - {claim for case, report in passed for claim in (case["engine"], *needs(case, report))}


class ClaimsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def play(self, option: str, engine: str, *arguments: str, expect: int = 0) -> tuple[dict, set[str]]:
        """The report, and the features that the engine claims in it."""
        out = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        line = [os.environ["SHARDPROOF"], "run", option, engine, "--quiet", "--out", str(out), *arguments]
        ended = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(ended.returncode, expect, ended.stdout + ended.stderr)
        (subject,) = json.loads((out / "listing.json").read_text())["subjects"]
        self.assertEqual(list(subject["claims"]), [KIND])
        report = json.loads((out / "report.json").read_text())
        self.assertIn(KIND, {case["engine"] for case in report["cases"]})
        return report, set(subject["claims"][KIND])

    def test_every_example_passes_all_cases_of_its_claims(self) -> None:
        for name, ((option, variable), claims) in ENGINES.items():
            with self.subTest(name):
                engine = os.environ[variable]
                self.assertNotEqual(engine, "NOTFOUND", "not built: install libcjson-dev, and run CMake again")
                report, claimed = self.play(option, engine)
                self.assertEqual(claimed, claims)
                self.assertEqual(report["subject"]["name"], name)
                self.assertGreaterEqual({case["suite"] for case in report["cases"]}, {"overlap", "extensions"})
                self.assertGreaterEqual({case["world_size"] for case in report["cases"]}, {1, 2, 3, 4})
                reports = [report]
                if "thread_ranks" in claims:
                    reports.append(self.play(option, engine, "--fabric", "thread", "--ranks", "2")[0])
                self.assertEqual([found for report in reports for found in wrong_verdicts(report, claims)], [])
                self.assertEqual(empty_claims(reports, claims), set())

    def test_a_claim_without_a_case_that_passed_is_found(self) -> None:
        report, claims = self.play("--worker", os.environ["PYTHON_EXAMPLE"], "extensions", "--ranks", "1", expect=6)
        self.assertEqual(wrong_verdicts(report, claims), [])
        self.assertEqual(empty_claims([report], claims), {KIND})

    def test_a_claim_that_does_not_hold_is_found(self) -> None:
        boaster = self.folder / "boaster.py"
        boaster.write_text(
            f"""#!{sys.executable} -B
import sys
sys.path.insert(0, {str(Path(os.environ["PYTHON_EXAMPLE"]).parent)!r})
import my_engine
my_engine.MyEngine.claims = {{{KIND!r}: ("clip_grad_norm",)}}
sys.exit(my_engine.run(my_engine.MyEngine(), sys.argv))
"""
        )
        boaster.chmod(0o755)
        report, claims = self.play("--worker", str(boaster), "overlap", "--ranks", "1", expect=1)
        self.assertIn("overlap/small_gradients_stay[W=1,norm=2]: error", wrong_verdicts(report, claims))
        self.assertEqual(empty_claims([report], claims), {"clip_grad_norm"})


if __name__ == "__main__":
    unittest.main()
