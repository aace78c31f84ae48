#!/usr/bin/env python3
"""Generated cases on request: other seeds, a given scenario, and a small scenario for a failure.

    generated_test.py LAUNCHER [unittest arguments]
"""
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CASE = "overlap/generated[W=3,generator=2,seed=1]"
FAULT = "factor_counts_replicas"


class Generated(unittest.TestCase):
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

    def report(self, out):
        return json.loads((self.folder / out / "report.json").read_text(encoding="utf-8"))

    def test_other_seeds_are_played_on_request(self):
        self.shardproof("run", "exec_order/generated", "--ranks", 2, "--generated", 12, "--out", "out")
        cases = self.report("out")["cases"]
        self.assertEqual({case["params"]["seed"] for case in cases}, {str(seed) for seed in range(1, 13)})
        self.assertTrue(all(case["verdict"] == "passed" and case["clauses"] == ["EXO-15"] for case in cases))
        self.assertFalse((self.folder / "out/smallest").exists())
        # The whole id suffices, and `merge` knows the case, too.
        self.shardproof("run", "replicate/generated[W=2,generator=2,seed=500]", "--out", "one")
        (self.folder / "one/report.json").unlink()
        self.shardproof("merge", "one")
        self.assertEqual(
            [(case["id"], case["clauses"]) for case in self.report("one")["cases"]],
            [("replicate/generated[W=2,generator=2,seed=500]", ["REP-17"])],
        )

    def test_a_backward_may_reach_a_module_by_its_input(self):
        # The output of a wrapped module is its input, and is discarded. A check once took the module for unreached, and
        # failed a correct engine.
        self.shardproof("run", "overlap/generated[W=2,generator=2,seed=4023]", "--out", "out")

    def test_an_interrupt_ends_the_search_for_a_small_scenario(self):
        command = [
            LAUNCHER,
            "run",
            "overlap/generated",
            "--ranks",
            "3",
            "--fault",
            FAULT,
            "--generated",
            "3",
            "--out",
            "out",
        ]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            while process.poll() is None and not (self.folder / "out/report.json").exists():
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said, complaint = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said + complaint)
        self.assertIn("the report is complete", complaint)
        self.assertEqual({case["verdict"] for case in self.report("out")["cases"]}, {"passed", "failed"})

    def test_a_failure_gets_a_small_scenario_and_a_command_that_plays_it(self):
        said = self.shardproof(
            "run", "overlap/generated", "--ranks", 3, "--fault", FAULT, "--generated", 2, "--out", "out", expect=1
        ).stdout
        smallest = json.loads((self.folder / "out/smallest/1/scenario.json").read_text(encoding="utf-8"))
        self.assertEqual(len(smallest["model"]["root"]["children"]), 1)
        self.assertEqual(smallest["plan"]["mesh"]["shape"], [3, 1])
        self.assertIn("gradient_divide_factor", smallest["plan"]["fully_shard"])
        drawn = json.loads((self.folder / "out/smallest/1/as_drawn.json").read_text(encoding="utf-8"))
        self.assertGreater(len(json.dumps(drawn)), 2 * len(json.dumps(smallest)))
        self.assertIn(f"{CASE} fails for the same cause with a smaller scenario", said)
        command = shlex.split(
            next(line for line in said.splitlines() if line.startswith("  play it: ")).removeprefix("  play it: ")
        )
        self.shardproof(*command[1:], "--out", "again", expect=1)
        (case,) = self.report("again")["cases"]
        self.assertEqual((case["id"], case["verdict"]), (CASE, "failed"))
        self.assertEqual(case["failures"][0]["clauses"], ["OVL-50"])
        # Without the fault the same scenario passes.
        self.shardproof("run", CASE, "--scenario", "out/smallest/1/scenario.json", "--out", "sound")
        # A later run may replace this run.
        self.shardproof("run", CASE, "--out", "out", "--overwrite")
        self.assertFalse((self.folder / "out/smallest").exists())

    def test_the_command_of_the_run_also_starts_the_worlds_of_the_search(self):
        # Ranks may be on hosts that see the run's folder only.
        foreign = pathlib.Path(__file__).resolve().parents[1] / "launcher" / "foreign_launcher.py"
        start = self.folder / "start"
        start.write_text(
            f'#!/bin/sh\necho "$*" >>{self.folder}/started\nexec {sys.executable} {foreign} -n 3 "$@"\n',
            encoding="utf-8",
        )
        start.chmod(0o755)
        self.shardproof(
            "run", CASE, "--ranks", 3, "--fault", FAULT, "--generated", 1, "--out", "out",
            "--launcher", start, expect=1,
        )  # fmt: skip
        self.assertTrue((self.folder / "out/smallest/1/scenario.json").exists())
        self.assertEqual([entry.name for entry in (self.folder / "out/smallest").iterdir()], ["1"])
        worlds = [line.split()[-1] for line in (self.folder / "started").read_text(encoding="utf-8").splitlines()]
        self.assertGreater(len(worlds), 1)
        self.assertTrue(all(world.startswith(str(self.folder / "out")) for world in worlds), worlds)

    def test_a_given_scenario_must_fit(self):
        (self.folder / "broken.json").write_text("{}", encoding="utf-8")
        said = self.shardproof("run", CASE, "--scenario", "broken.json", expect=2).stderr
        self.assertIn("broken.json", said)
        self.assertIn("No such file", self.shardproof("run", CASE, "--scenario", "none.json", expect=2).stderr)
        self.assertIn(
            "24 cases are selected",
            self.shardproof("run", "overlap/generated", "--scenario", "broken.json", expect=2).stderr,
        )
        self.assertIn(
            "use one of the two",
            self.shardproof("run", CASE, "--generated", 3, "--scenario", "broken.json", expect=2).stderr,
        )
        self.shardproof(
            "run",
            "replicate/generated[W=2,generator=2,seed=1]",
            "--fault",
            "unreduced_step",
            "--generated",
            "x",
            expect=2,
        )

    def test_a_scenario_for_another_kind_of_engine_is_skipped(self):
        self.shardproof("run", CASE, "--fault", FAULT, "--out", "out", expect=1)
        drawn = next((self.folder / "out/worlds/0/evidence").glob("*.scenario.json"))
        self.shardproof(
            "run", "replicate/generated[W=3,generator=2,seed=1]", "--scenario", drawn, "--out", "other", expect=0
        )
        (case,) = self.report("other")["cases"]
        self.assertEqual(case["verdict"], "skipped")


if __name__ == "__main__":
    LAUNCHER = sys.argv.pop(1)
    unittest.main()
