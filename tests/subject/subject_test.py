# Runs the launcher with subjects that are tables of C functions: the reference engine in three ways, and bad subjects.
# subject_test.py LAUNCHER WORKER PROGRAM ROOT REFERENCE BAD [unittest arguments]
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

LAUNCHER, WORKER, PROGRAM = sys.argv[1:4]
ROOT, REFERENCE, BAD = map(pathlib.Path, sys.argv[4:7])
sys.path.append(str(ROOT / "tests/suites"))
from digests import digests
CASE = "overlap/values_exact[W=2,reshard=true]"


def shardproof(*arguments, how=""):
    """The exit code, the output and the error output of one call. `how` chooses the defect of the bad subject."""
    environment = {**os.environ, "SHARDPROOF_BAD_SUBJECT": how}
    done = subprocess.run(
        [LAUNCHER, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
    )
    return done.returncode, done.stdout, done.stderr


class Subject(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.out = pathlib.Path(self.scratch.name)

    def run_one(self, how, case=CASE):
        """The report of one case on the bad subject, and its outcome on rank 0."""
        shardproof("run", case, "--subject", BAD, "--out", str(self.out / "run"), how=how)
        report = json.loads((self.out / "run/report.json").read_text(encoding="utf-8"))
        return report, report["cases"][0]

    def stable(self, name, *options):
        """The digests of a run's report."""
        code, said, complaints = shardproof("run", "--out", str(self.out / name), *options)
        self.assertEqual(code, 0, said + complaints)
        code, text, complaints = shardproof("stable", str(self.out / name))
        self.assertEqual(code, 0, complaints)
        return digests(json.loads(text.replace('"name": "reference_in_c"', '"name": "reference"')))


class Tables(Subject):
    def test_the_reference_engine_is_the_same_in_a_table_of_a_shared_object_and_of_a_program(self):
        directly = self.stable("directly", "--ranks", "2")
        self.assertGreater(len(directly["cases"]), 1000)
        self.assertEqual(self.stable("by_path", "--ranks", "2", "--subject", REFERENCE), directly)
        self.assertEqual(self.stable("by_program", "--ranks", "2", "--worker", PROGRAM), directly)

    def test_a_rank_of_another_launcher_brings_a_shared_object(self):
        def rank(library):
            ranks = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "SHARDPROOF_BAD_SUBJECT": "version"}
            line = [
                WORKER,
                "--run-dir",
                str(self.out / library.name),
                "--subject",
                str(library),
                "overlap/values_exact",
            ]
            return subprocess.run(line, capture_output=True, text=True, env=ranks, check=False)

        done = rank(REFERENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(shardproof("merge", str(self.out / REFERENCE.name))[0], 0)
        report = json.loads((self.out / REFERENCE.name / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(report["subject"]["name"], "reference_in_c")
        self.assertEqual({case["verdict"] for case in report["cases"]}, {"passed"})
        refused = rank(BAD)
        self.assertIn("its table has version 99 of shardproof.h", refused.stderr)
        self.assertNotEqual(refused.returncode, 0)

    def test_a_bad_table_is_refused_with_the_reason_before_any_world(self):
        for how, why in {
            "version": "its table has version 99 of shardproof.h, this harness has version 6",
            "size": "its table gives its size as 16 bytes",
            "function": "its table has no `perform`",
            "table": "shardproof_subject_table has thrown: no engine without a licence",
            "feature": 'it claims "telepathy" for the engine kind fully_shard, whose features are: timeline',
        }.items():
            with self.subTest(how):
                code, _, said = shardproof(
                    "run", CASE, "--subject", BAD, "--out", str(self.out / how.replace(" ", "")), how=how
                )
                self.assertIn(f"subject {BAD}: {why}", said)
                self.assertEqual(code, 3, said)
        code, _, said = shardproof("list", "--subject", PROGRAM)
        self.assertIn(f"subject {PROGRAM}: ", said)
        self.assertEqual(code, 3)

    def test_a_table_prepares_once_for_all_ranks(self):
        code, said, complaints = shardproof(
            "run", CASE, "--isolate", "--repeat", "3", "--subject", BAD, "--out", str(self.out / "run"), how="prepared"
        )
        self.assertEqual(code, 0, said + complaints)
        self.assertEqual((self.out / "run/warm.log").read_text(encoding="utf-8"), "prepared\n")

    def test_a_table_that_cannot_be_prepared_ends_the_run_with_its_text(self):
        code, _, complaints = shardproof(
            "run", CASE, "--subject", BAD, "--out", str(self.out / "run"), how="unprepared"
        )
        self.assertEqual(code, 3)
        self.assertIn(": its engine is not installed\n", complaints)

    def test_an_exception_of_a_subject_is_an_error_with_its_text(self):
        _, case = self.run_one("throws")
        self.assertEqual(case["verdict"], "error")
        self.assertIn("it threw across the boundary: out of the C++ of a subject", json.dumps(case))

    def test_an_error_without_a_text_is_reported(self):
        _, case = self.run_one("silent")
        self.assertIn("it failed (it returned 1) and gave no reason", json.dumps(case))

    def test_memory_that_is_left_alive_is_reported(self):
        _, case = self.run_one("leaks")
        self.assertEqual(case["verdict"], "failed")
        self.assertIn("not quiet at its end: the subject left 100 bytes of device memory alive", json.dumps(case))

    def test_a_thread_that_outlives_its_case_is_reported_unless_the_table_declares_it(self):
        for how in ("thread", "thread of an older table"):
            with self.subTest(how):
                _, case = self.run_one(how)
                self.assertEqual(case["verdict"], "failed")
                self.assertIn("not quiet at its end: thread ", json.dumps(case))
                shutil.rmtree(self.out / "run")
        _, case = self.run_one("declared thread")
        self.assertEqual(case["verdict"], "passed", case)

    def test_a_failure_of_destroy_is_reported(self):
        _, case = self.run_one("destroy")
        self.assertEqual(case["verdict"], "error")
        self.assertIn(
            "not quiet at its end: the subject's destroy: it threw across the boundary: half of it is left",
            json.dumps(case),
        )

    def test_the_error_of_an_invalid_tensor_says_what_was_expected(self):
        _, case = self.run_one("strided")
        self.assertIn(
            "the loss, f32 [1, 2]: strides [1, 7]: its elements have to lie row-major without gaps", json.dumps(case)
        )

    def test_a_feature_that_is_not_claimed_is_skipped(self):
        report, case = self.run_one("few features", "overlap/declared_memory[W=2,reshard=true]")
        self.assertEqual(case["verdict"], "skipped")
        self.assertIn("subject bad does not claim hidden_memory", json.dumps(report["skips"]))

    def test_an_engine_kind_that_is_not_claimed_is_skipped(self):
        report, case = self.run_one("other kind", "overlap/declared_memory[W=2,reshard=true]")
        self.assertEqual(case["verdict"], "skipped")
        self.assertEqual(case["engine"], "fully_shard")
        self.assertIn("subject bad does not claim the engine kind fully_shard", json.dumps(report["skips"]))


class EveryWorld(Subject):
    def test_the_reference_engine_is_the_same_through_the_table_of_a_shared_object(self):
        kept = json.loads((ROOT / "tests/suites/default_digests.json").read_text(encoding="utf-8"))
        self.assertEqual(self.stable("by_path", "--subject", REFERENCE), kept)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[7:]])
