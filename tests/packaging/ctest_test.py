#!/usr/bin/env python3
"""Installs the build, builds a project whose cases are tests of CTest with it, and checks these tests.

    ctest_test.py BUILD SCRATCH GENERATOR COMPILER
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

BUILD, SCRATCH, GENERATOR, COMPILER = sys.argv[1:5]
del sys.argv[1:5]
HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path(SCRATCH) / "prefix"
PROJECT = pathlib.Path(SCRATCH) / "build"
ODD = ("x;y", "two words", '"quoted"', "#1", "$HOME ${HOME}", "\\")
LIMITED, USUAL = 5, 60  # seconds, the limit of ctest/passes and of a case without one
TO_LAUNCH = 60


def call(*command, **options):
    # A user's own settings do not decide which launcher a program finds.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHARDPROOF_")}
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=600, env=environment, **options
    )


def must(*command):
    result = call(*command)
    if result.returncode != 0:
        sys.exit(f"{command} ended with {result.returncode}:\n{result.stdout}{result.stderr}")


def tests():
    """The tests of CTest by name, with their properties and commands."""
    listed = json.loads(call("ctest", "--test-dir", PROJECT, "--show-only=json-v1").stdout)["tests"]
    return {
        test["name"]: {"command": test.get("command"), **{each["name"]: each["value"] for each in test["properties"]}}
        for test in listed
    }


class Discovery(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(SCRATCH, ignore_errors=True)
        must("cmake", "--install", BUILD, "--prefix", PREFIX)
        must(
            "cmake", "-S", HERE / "ctest", "-B", PROJECT, "-G", GENERATOR, f"-DCMAKE_CXX_COMPILER={COMPILER}",
            f"-DCMAKE_PREFIX_PATH={PREFIX}", "-DCMAKE_BUILD_TYPE=Release",
        )
        must("cmake", "--build", PROJECT)
        cls.tests = tests()

    def test_the_prefix_has_pages_schemas_and_scenarios_to_play(self):
        pages = PREFIX / "share/doc/shardproof"
        for page in ("LICENSE", "README.md", "docs/reports.md", "suites/overlap/clauses.md"):
            self.assertTrue((pages / page).is_file(), page)
        for schema in ("report", "scenario"):
            text = (PREFIX / f"share/shardproof/schema/{schema}.schema.json").read_text()
            self.assertIn("$schema", json.loads(text))
        played = call(PREFIX / "bin/shardproof", "play", pages / "docs/scenarios/overlap.json")
        self.assertEqual(played.returncode, 0, played.stderr)

    def test_each_case_of_the_chosen_sizes_is_a_test(self):
        self.assertEqual(
            {name for name in self.tests if name.startswith("ctest/")},
            {"ctest/alone[W=4]", "ctest/passes[W=2]", "ctest/passes[W=4]", "ctest/skips[W=2]", "ctest/fails[W=2]"}
            | {f"ctest/odd[W=2,text={text}]" for text in ODD},
        )

    def test_names_have_a_prefix_and_a_suffix_and_cases_on_request_are_no_tests(self):
        cases = ("other/sizes[W=1]", "other/two;parts[W=1]", "ctest/odd[W=2,text=x;y]")
        self.assertEqual(
            {name for name in self.tests if name.startswith("gpu; ")}, {f"gpu; {case} ]=] cuda" for case in cases}
        )

    def test_labels_are_the_suite_the_tags_and_those_of_the_project(self):
        self.assertEqual(self.tests["ctest/passes[W=2]"]["LABELS"], ["ctest", "quick", "slow", "team"])
        self.assertEqual(self.tests["ctest/fails[W=2]"]["LABELS"], ["ctest", "slow", "team"])
        self.assertEqual(self.tests["gpu; other/sizes[W=1] ]=] cuda"]["LABELS"], ["other"])

    def test_the_time_limit_has_room_for_ranks_that_share_a_core(self):
        self.assertEqual(self.tests["ctest/passes[W=2]"]["TIMEOUT"], LIMITED * 2 + TO_LAUNCH)
        self.assertEqual(self.tests["ctest/passes[W=4]"]["TIMEOUT"], LIMITED * 4 + TO_LAUNCH)
        self.assertEqual(self.tests["ctest/fails[W=2]"]["TIMEOUT"], USUAL * 2 + TO_LAUNCH)

    def test_processors_are_the_ranks_up_to_those_of_the_machine(self):
        for ranks in (2, 4):
            # CTest does not list the usual number, 1
            processors = self.tests[f"ctest/passes[W={ranks}]"].get("PROCESSORS", 1)
            self.assertEqual(processors, min(ranks, os.cpu_count()))

    def test_other_properties_and_arguments_are_those_of_the_project(self):
        test = self.tests["ctest/passes[W=2]"]
        self.assertEqual(test["ENVIRONMENT"], ["FIRST=1", "SECOND=2"])
        self.assertEqual(test["WORKING_DIRECTORY"], str(PROJECT))
        self.assertEqual(test["command"][0], str(PREFIX / "bin/shardproof"))
        self.assertEqual(test["command"][-5:], ["--seed", "7", "--color=never", "--", "ctest/passes[W=2]"])

    def test_each_rank_of_a_world_on_gpus_takes_a_gpu(self):
        test = self.tests["gpu; ctest/odd[W=2,text=x;y] ]=] cuda"]
        self.assertEqual(test["RESOURCE_GROUPS"], [{"requirements": [{".type": "gpus", "slots": 1}]}] * 2)
        self.assertEqual(test["command"][test["command"].index("--device") + 1], "cuda")
        self.assertNotIn("RESOURCE_GROUPS", self.tests["ctest/passes[W=2]"])

    def test_cases_pass_fail_and_are_skipped(self):
        printed = call("ctest", "--test-dir", PROJECT, "-R", "^ctest/|^refuses_in", "--output-on-failure").stdout
        results = dict(re.findall(r"Test +#\d+: (.+?) \.*(?: +|\*\*\*)(Passed|Failed|Skipped) ", printed))
        expected = {f"ctest/odd[W=2,text={text}]": "Passed" for text in ODD}
        expected |= {f"ctest/{case}": "Passed" for case in ("alone[W=4]", "passes[W=2]", "passes[W=4]")}
        expected |= {"ctest/skips[W=2]": "Skipped", "ctest/fails[W=2]": "Failed"}
        expected |= {"refuses_in_ctest lists its cases": "Failed"}
        self.assertEqual(results, expected, printed)
        self.assertIn("FAIL ctest/fails[W=2]", printed)
        self.assertIn("refuses_in_ctest cannot list its cases", printed)
        self.assertIn("a library is missing here", printed)
        self.assertFalse((PROJECT / "shardproof-out").exists(), "a test leaves a new folder each time")

    def test_a_program_that_cannot_list_its_cases_is_an_error_of_the_build(self):
        self.assertIn("refuses lists its cases", self.tests)  # it is not built
        result = call("cmake", "--build", PROJECT, "--target", "refuses")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("refuses cannot list its cases", result.stdout + result.stderr)
        self.assertIn("a library is missing here", result.stdout + result.stderr)

    def test_a_program_that_a_user_starts_finds_the_launcher_of_its_package(self):
        options = ("ctest/passes", "--ranks", "2")
        result = call("./my_tests", *options, "--out", PROJECT / "by_hand", cwd=PROJECT)
        self.assertEqual(result.returncode, 0, result.stderr)
        command = " ".join((f"{PREFIX}/bin/shardproof run --worker ./my_tests", *options))
        self.assertIn(f"my_tests: running my_tests through {command}", result.stderr)
        self.assertIn("1 case in 1 world: 1 passed", result.stdout)

    def test_a_worker_that_a_user_starts_finds_the_launcher_in_its_folder(self):
        case = "overlap/training_overlap[W=1]"
        result = call(PREFIX / "bin/shardproof-worker", case, "--out", PROJECT / "suites_by_hand")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 case in 1 world: 1 passed", result.stdout)


if __name__ == "__main__":
    unittest.main()
