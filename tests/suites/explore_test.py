#!/usr/bin/env python3
"""`shardproof explore` on the reference engine and on the same engine with a fault: it finds differences, makes them
small, and finds them again.

    explore_test.py LAUNCHER [unittest arguments]
"""
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest


class Exploring(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def shardproof(self, *arguments, expect=0):
        result = subprocess.run(
            [LAUNCHER, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def explore(self, fault, *arguments, out="out", expect=1):
        subjects = "reference,reference" + (f"+{fault}" if fault else "")
        said = self.shardproof("explore", "--subject", subjects, "--out", out, *arguments, expect=expect)
        return said.stdout, json.loads((self.folder / out / "explored.json").read_text(encoding="utf-8"))


class Explore(Exploring):
    def test_a_subject_plays_like_itself(self):
        said, explored = self.explore(None, "--rounds", 20, "--seed", 7, expect=0)
        self.assertIn(
            "reference (1) against reference (1): scenarios for fully_shard from seed 7 on, for 1, 2, 4 ranks\n", said
        )
        self.assertIn("20 scenarios, seeds 7 to 26: 20 alike, 0 differences\n", said)
        self.assertEqual(
            (explored["seed"], explored["rounds"], explored["alike"], explored["ranks"], explored["differences"]),
            (7, 20, 20, [1, 2, 4], []),
        )
        self.assertIn("prefetch_lists", explored["features"])
        self.assertEqual([subject["fault"] for subject in explored["subjects"]], ["", ""])

    def test_another_kind_of_engine_is_explored_on_demand(self):
        said, explored = self.explore(None, "--engine", "flat_shard", "--rounds", 20, expect=0)
        self.assertIn(
            "reference (1) against reference (1): scenarios for flat_shard from seed 0 on, for 1, 2, 4 ranks\n", said
        )
        self.assertEqual((explored["engine"], explored["alike"]), ("flat_shard", 20))
        self.assertIn("order_validation", explored["features"])

    def test_replicated_engines_are_explored_on_demand(self):
        _, explored = self.explore(None, "--engine", "replicate", "--rounds", 20, expect=0)
        self.assertEqual((explored["engine"], explored["alike"]), ("replicate", 20))
        self.assertIn("gradient_views", explored["features"])

    def test_excluded_features_are_in_no_scenario(self):
        said, explored = self.explore(
            "clips_everything", "--rounds", 20, "--ranks", "1,2", "--without", "clip_grad_norm,adam", expect=0
        )
        self.assertEqual(explored["without"], ["clip_grad_norm", "adam"])
        self.assertEqual(explored["alike"], 20)

    def test_an_interrupt_keeps_earlier_differences(self):
        command = [
            LAUNCHER,
            "explore",
            "--subject",
            "reference,reference+gathers_twice",
            "--for",
            "1h",
            "--max-differences",
            "1000",
            "--out",
            "out",
        ]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            said = next(
                (line for line in process.stdout if line.startswith("  find it: ")), "it ended without a difference"
            )
            process.send_signal(signal.SIGINT)
            rest, complaint = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said + rest + complaint)
        self.assertIn("interrupted; what was found until then is kept\n", complaint)
        explored = json.loads((self.folder / "out/explored.json").read_text(encoding="utf-8"))
        self.assertTrue(explored["interrupted"])
        self.assertGreaterEqual(len(explored["differences"]), 1)
        self.assertTrue((self.folder / "out/differences/1/difference.json").exists())

    def test_wrong_arguments_are_refused(self):
        (self.folder / "full").mkdir()
        (self.folder / "full/mine").touch()
        for arguments, expected in (
            ((), "explore takes two subjects"),
            (("--subject", "reference"), "name two subjects as A,B"),
            (("--subject", "reference,nobody"), "unknown subject 'nobody'"),
            (("--subject", "reference,reference+nothing"), "unknown fault 'nothing'"),
            (("--subject", "reference,reference", "--without", "tea"), '"tea" is unknown; there is timeline'),
            (("--subject", "reference,reference", "--for", "soon"), "--for soon: a time from 0.001 to"),
            (("--subject", "reference,reference", "--rounds", "0"), "--rounds 0: a whole number"),
            (("--subject", "reference,reference", "--out", "full"), "is not empty"),
            (("--subject", "reference,reference", "more"), "unexpected argument 'more'"),
        ):
            self.assertIn(expected, self.shardproof("explore", *arguments, expect=2).stderr)
        self.assertEqual({entry.name for entry in self.folder.iterdir()}, {"full"})


class Shrinking(Exploring):
    def test_a_planted_difference_is_found_made_small_and_found_again(self):
        said, explored = self.explore("no_backward_prefetch", "--ranks", "2")
        (found,) = explored["differences"]
        self.assertEqual(
            (found["kept"], found["smallest"], found["steady"], found["ranks"], found["folder"]),
            ("order", True, True, 2, "differences/1"),
        )
        folder = self.folder / "out/differences/1"
        smallest = json.loads((folder / "scenario.json").read_text(encoding="utf-8"))
        # Two groups, of which backward would gather the next one; one forward and one backward.
        self.assertEqual(len(smallest["plan"]["fully_shard"]["wrap"]), 2)
        self.assertEqual(smallest["script"]["segments"], [{"body": ["forward", "backward"]}])
        self.assertNotIn("costs", smallest)
        self.assertLess(
            len(json.dumps(smallest)),
            len(json.dumps(json.loads((folder / "as_found.json").read_text(encoding="utf-8")))),
        )
        # The differences and the output of both subjects are kept.
        kept = json.loads((folder / "difference.json").read_text(encoding="utf-8"))
        self.assertEqual([difference["aspect"] for difference in kept["differences"]], found["aspects"])
        self.assertEqual([len(played["result"]["ranks"]) for played in kept["played"]], [2, 2])
        text = (folder / "difference.txt").read_text(encoding="utf-8")
        self.assertIn("order    differ: ", text)
        self.assertIn(text, said)
        # The reported commands find it again.
        self.assertIn(f"  play it: {found['play']}\n  find it: {found['find']}\n", said)
        self.assertIn(text, self.shardproof(*shlex.split(found["play"])[1:], expect=1).stdout)
        self.shardproof(*shlex.split(found["find"])[1:], "--out", "again", expect=1)
        self.assertEqual((self.folder / "again/differences/1/scenario.json").read_text(encoding="utf-8"),
                         (folder / "scenario.json").read_text(encoding="utf-8"))

    def test_a_difference_in_values_stays_one(self):
        said, explored = self.explore("divided_once_more", "--ranks", "2")
        self.assertEqual(explored["differences"][0]["kept"], "bits")
        self.assertEqual(explored["differences"][0]["aspects"], ["bits"])
        smallest = json.loads((self.folder / "out/differences/1/scenario.json").read_text(encoding="utf-8"))
        self.assertEqual(smallest["script"]["segments"], [{"body": ["forward", "backward", "capture"]}])

    def test_each_reported_difference_is_of_another_kind(self):
        said, explored = self.explore(
            "gathers_twice",
            "--rounds",
            3,
            "--max-differences",
            9,
            "--ranks",
            "2",
            "--without",
            "evaluation,manual_unshard,scales",
            "-q",
        )
        documents = {
            (self.folder / "out" / one["folder"] / "scenario.json").read_text(encoding="utf-8")
            for one in explored["differences"]
        }
        self.assertEqual(len(documents), len(explored["differences"]))
        self.assertEqual(explored["alike"] + explored["seen_again"] + len(documents), 3)
        self.assertGreater(explored["seen_again"], 0)


if __name__ == "__main__":
    LAUNCHER = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
