"""Runs the program with the toy kind: the engine learns, its fault is noticed, its document plays, and other programs
refuse the kind.

    toy_test.py LAUNCHER WORKER PROGRAM DOUBLED ROOT [unittest arguments]"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAUNCHER, WORKER, PROGRAM, DOUBLED, ROOT = sys.argv[1:6]
DOCUMENT = f"{ROOT}/tests/toy_engine/toy.json"
CASES = [f"toy/learns[W={ranks}]" for ranks in (1, 2, 3, 4)]


class ToyTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def shardproof(self, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run([LAUNCHER, *arguments], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(ended.returncode, expect, ended.stdout + ended.stderr)
        return ended

    def run_cases(self, *arguments: str, expect: int = 0) -> dict:
        out = self.folder / f"run-{len(list(self.folder.iterdir()))}"
        self.shardproof("run", "--worker", PROGRAM, "--quiet", "--out", str(out), *arguments, expect=expect)
        return json.loads((out / "report.json").read_text(encoding="utf-8"))

    def test_the_case_passes_in_every_world_and_names_its_kind(self) -> None:
        for arguments in ((), ("--fabric", "thread")):
            report = self.run_cases(*arguments)
            self.assertEqual([(case["id"], case["verdict"], case["engine"]) for case in report["cases"]],
                             [(case, "passed", "toy") for case in CASES])

    def test_the_subject_claims_the_kind_and_the_shipped_kinds(self) -> None:
        listing = json.loads(
            subprocess.run([PROGRAM, "--list-json"], capture_output=True, text=True, check=True).stdout
        )
        (subject,) = listing["subjects"]
        self.assertEqual(list(subject["claims"]), ["fully_shard", "flat_shard", "replicate", "toy"])
        self.assertEqual(
            subject["claims"]["toy"], ["hidden_memory", "named_bucket", "serial", "thread_ranks", "timeline"]
        )
        self.assertEqual([case["needs"] for case in listing["cases"]], [["timeline", "named_bucket"]] * len(CASES))

    def test_only_this_folder_knows_the_feature_of_the_kind(self) -> None:
        code = {file for room in ("fixtures", "harness", "launcher", "reports", "suites", "tests", "worker")
                for file in Path(ROOT, room).rglob("*.[ch]pp") if "named_bucket" in file.read_text(encoding="utf-8")}
        self.assertEqual({file.parent for file in code}, {Path(ROOT, "tests/toy_engine")})

    def test_an_engine_whose_ranks_do_not_share_gradients_fails(self) -> None:
        report = self.run_cases("--fault", "toy_without_all_reduce", expect=1)
        self.assertEqual({case["id"]: case["verdict"] for case in report["cases"]},
                         {CASES[0]: "passed", **dict.fromkeys(CASES[1:], "failed")})
        (played,) = self.folder.glob("run-*/worlds/*/evidence/toy.learns[[]W=2[]].scenario.json")
        self.assertEqual(json.loads(played.read_text(encoding="utf-8"))["plan"], {"toy": {"bucket": "gradients"}})
        self.shardproof("play", str(played), "--worker", PROGRAM, "--ranks", "2")

    def test_the_document_plays_with_the_program(self) -> None:
        said = self.shardproof("play", DOCUMENT, "--worker", PROGRAM, "--ranks", "2").stdout
        self.assertIn("2 ranks, subject reference", said)
        self.assertIn('all_reduce (avg) "gradients"', said)
        self.assertIn("total 66 ms", said)

    def test_the_program_plays_documents_of_the_shipped_kinds(self) -> None:
        self.shardproof("play", f"{ROOT}/docs/scenarios/overlap.json", "--worker", PROGRAM, "--ranks", "2")

    def test_the_commands_of_the_page_succeed(self) -> None:
        page = Path(ROOT, "docs/add-an-engine-kind.md").read_text(encoding="utf-8")
        commands = re.findall(r"^\$ build/bin/shardproof (.*)$", page, re.MULTILINE)
        self.assertEqual([command.split()[0] for command in commands], ["play", "run"])
        (self.folder / "tests").symlink_to(Path(ROOT, "tests"))
        for command in commands:
            words = [PROGRAM if word == "build/bin/toy_program" else word for word in command.split()]
            ended = subprocess.run(
                [LAUNCHER, *words], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
            )
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_a_program_without_the_kind_refuses_the_document(self) -> None:
        said = self.shardproof("play", DOCUMENT, "--worker", WORKER, "--ranks", "2", expect=2).stderr
        self.assertIn(
            ": scenario: plan.toy: no such key, and no engine kind of this worker; "
            "kinds: fully_shard, flat_shard, replicate; other keys: mesh, ",
            said,
        )

    def test_a_mistake_in_the_section_is_named_with_its_place(self) -> None:
        document = json.loads(Path(DOCUMENT).read_text(encoding="utf-8"))
        for change, said in (
            ({"toy": {"bucket": ""}}, "scenario: plan.toy.bucket: expected "),
            ({"toy": {"bukket": "x"}}, "scenario: plan.toy"),
            ({"mesh": {"shape": [1, 2], "names": ["a", "b"]}}, "scenario: plan.mesh: "),
        ):
            with self.subTest(change):
                path = self.folder / "wrong.json"
                path.write_text(json.dumps({**document, "plan": {**document["plan"], **change}}), encoding="utf-8")
                self.assertIn(
                    said, self.shardproof("play", str(path), "--worker", PROGRAM, "--ranks", "2", expect=2).stderr
                )

    def test_wrong_kinds_and_needs_are_named_before_anything_runs(self) -> None:
        said = self.shardproof("run", "--worker", DOUBLED, "--out", str(self.folder / "run"), expect=3).stderr
        for problem in (
            'engine kind "twin" is registered twice; choose another name for one of them',
            'engine kind "fully_shard" is registered twice; choose another name for one of them',
            'engine kind "no_engine": the name is reserved for plans without an engine; choose another name',
            'engine kind "mesh": every plan has a key of this name; choose another name',
            "an engine kind is registered without a name",
            'engine kind "greedy" has two features "serial"; choose another name for its own',
            'SUITE_ENGINE gives suite "doubled" the engine kind "fully_shrad", which this program does not know; '
            "it knows: fully_shard, ",
            'case "doubled/misspelt" names the engine kind "twim", which this program does not know; '
            "it knows: fully_shard, ",
            'case "doubled/own_feature" needs shard_dims, which no engine of the kind twin can have; '
            "features of this kind are: timeline, serial, ",
        ):
            self.assertIn(problem, said)
        for line in said.splitlines():
            if " case \"" in line or "SUITE_ENGINE" in line:
                self.assertRegex(line, r"doubled_program\.cpp:\d+: ")
        self.assertFalse((self.folder / "run/report.json").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
