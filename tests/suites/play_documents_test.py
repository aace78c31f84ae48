#!/usr/bin/env python3
"""`shardproof play` with the documents of users: sizes of worlds, micro-batches, several documents, and errors with
their place in a document.

    play_documents_test.py LAUNCHER ROOT [unittest arguments]
"""
import copy
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

MS = 1_000_000


class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.overlap = json.loads((ROOT / "docs/scenarios/overlap.json").read_text(encoding="utf-8"))
        self.body = self.overlap["script"]["segments"][0]["body"]

    def write(self, name, scenario):
        text = scenario if isinstance(scenario, str) else json.dumps(scenario, indent=2)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def play(self, *arguments, expect=0):
        result = subprocess.run(
            [LAUNCHER, "play", *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=120
        )
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def json(self, *arguments, expect=0):
        return json.loads(self.play(*arguments, "--json", expect=expect).stdout)

    def line_of(self, name, text):
        lines = (self.folder / name).read_text(encoding="utf-8").splitlines()
        (found,) = [number for number, line in enumerate(lines, 1) if text in line]
        return found

    def test_a_document_names_its_world_size(self):
        self.write("four.json", {"version": 2, "world_size": 4} | self.overlap)
        self.assertEqual(len(self.json("four.json")["ranks"]), 4)
        self.assertTrue(self.play("four.json").stdout.startswith("four.json: 4 ranks, subject reference\n"))
        self.assertEqual(len(self.json("four.json", "--ranks", 4)["ranks"]), 4)
        said = self.play("four.json", "--ranks", 2, expect=2).stderr
        self.assertEqual(
            said,
            f"shardproof: {self.folder}/four.json:3:3: scenario: world_size: "
            "is 4, but the world has 2 ranks: use --ranks 4, or leave --ranks out\n",
        )
        self.write("many.json", {"version": 2, "world_size": 5000} | self.overlap)
        self.assertIn("expected an integer from 1 to 1024, found 5000", self.play("many.json", expect=2).stderr)
        both = self.json("four.json", "--subject", "reference,reference")
        self.assertEqual(both["compared"]["ranks"], 4)

    def test_a_mesh_of_another_size_is_answered_with_the_ranks_to_use(self):
        said = self.play(ROOT / "docs/scenarios/flat_copies.json", expect=2).stderr
        self.assertRegex(
            said,
            r"^shardproof: \S+flat_copies.json:\d+:\d+: scenario: plan.mesh.shape: "
            r"the mesh has 4 ranks, and the world has 2: use --ranks 4\n$",
        )
        self.play(ROOT / "docs/scenarios/flat_copies.json", "--ranks", 4)

    def test_micro_batches_have_their_own_inputs_and_times(self):
        self.body[:] = [{"micro_batches": 3, "body": ["forward", "capture", "backward"]}, "step", "zero_grad"]
        self.overlap["script"]["segments"][0]["iterations"] = 2
        self.write("nested.json", self.overlap)
        played = self.json("nested.json")
        losses = [capture["loss"] for capture in played["ranks"][0]["iterations"]]
        self.assertEqual(len(losses), 6)
        self.assertEqual(len(set(losses[:3])), 3)
        self.assertEqual([capture["iteration"] for capture in played["ranks"][0]["iterations"]], 3 * [0] + 3 * [1])
        for iteration in played["iterations_ns"]:
            self.assertEqual(len(iteration["micro_batches"]), 3)
            for times in iteration["micro_batches"]:
                self.assertEqual(set(times), {"forward", "forward_backward", "exposed"})
        self.assertEqual(played["iterations_ns"][0]["micro_batches"][0], {
            "forward": 85 * MS, "forward_backward": 245 * MS, "exposed": 20 * MS
        })
        said = self.play("nested.json").stdout
        without_times = "\niteration 0               -                  -            -\n"
        self.assertIn(without_times + "  micro-batch 0       85 ms ", said)

        # The first micro-batch gets the input of the iteration. The calls are the same without a block.
        plain = copy.deepcopy(self.overlap)
        plain["script"]["segments"][0]["body"][:] = [
            {"call": call, "micro_batch": number} for number in range(3) for call in ("forward", "capture", "backward")
        ] + ["step", "zero_grad"]
        self.write("plain.json", plain)
        self.assertEqual(self.json("plain.json"), played)

    def test_a_backward_of_several_micro_batches_belongs_to_none_of_them(self):
        self.body[:] = [{"micro_batches": 2, "body": ["forward"]}, "backward",
                        {"micro_batches": 1, "body": ["forward"]}, "backward", "step"]
        self.write("shared.json", self.overlap)
        played = self.json("shared.json")
        times = played["iterations_ns"][0]["micro_batches"]
        whole = ["forward", "forward_backward", "exposed"]
        self.assertEqual([list(each) for each in times], [["forward"], ["forward"], whole])
        calls = played["ranks"][0]["calls"]
        self.assertEqual([(call["call"], call["micro_batch"]) for call in calls], [
            ("forward", 0), ("forward", 1), ("backward", 0), ("forward", 2), ("backward", 0), ("step", 0)
        ])

    def test_micro_batches_accumulate_the_gradients_of_their_inputs(self):
        self.body[:] = [
            {"call": "set_requires_gradient_sync", "value": False},
            {"micro_batches": 2, "body": ["forward", "backward"]},
            {"call": "set_requires_gradient_sync", "value": True},
            {"micro_batches": 1, "body": ["forward", "backward"]},
            "step",
            "capture",
        ]
        self.write("synced_once.json", self.overlap)
        once = self.json("synced_once.json")
        self.body[:] = [{"micro_batches": 3, "body": ["forward", "backward"]}, "step", "capture"]
        self.write("synced.json", self.overlap)
        always = self.json("synced.json")
        for one, other in zip(once["ranks"], always["ranks"]):
            self.assertEqual(one["iterations"], other["iterations"])
        counts = [
            sum(call["kind"] == "reduce_scatter" for call in played["ranks"][0]["collectives"])
            for played in (once, always)
        ]
        self.assertEqual(counts, [3, 9])

    def test_several_documents_are_played_in_order(self):
        self.write("a.json", self.overlap)
        self.write("b.json", {"version": 2, "world_size": 3} | self.overlap)
        said = self.play("a.json", "b.json").stdout
        self.assertTrue(said.startswith("a.json: 2 ranks, subject reference\n"))
        self.assertIn("\n\nb.json: 3 ranks, subject reference\n", said)
        elements = self.json("b.json", "a.json")
        self.assertEqual([element["scenario"] for element in elements], ["b.json", "a.json"])
        self.assertEqual([element["error"] for element in elements], [None, None])
        self.assertEqual([element["played"] for element in elements], [self.json("b.json"), self.json("a.json")])
        said = self.play("a.json", "b.json", "--subject", "reference,reference").stdout
        self.assertEqual(re.findall(r"^(\w\.json): (\d) ranks", said, re.M), [("a.json", "2"), ("b.json", "3")])
        elements = self.json("a.json", "b.json", "--subject", "reference,reference+no_backward_prefetch", expect=1)
        self.assertEqual([element["played"]["alike"] for element in elements], [False, False])
        self.play("a.json", "b.json", "--out", "kept")
        report = json.loads((self.folder / "kept/report.json").read_text(encoding="utf-8"))
        self.assertEqual([case["verdict"] for case in report["cases"]], ["passed", "passed"])

    def test_a_bad_document_does_not_lose_the_results_of_others(self):
        self.write("good.json", self.overlap)
        self.write("bad.json", '{\n  "version": 2,\n  "model": {,}\n}')
        refused = copy.deepcopy(self.overlap)
        refused["plan"]["fully_shard"]["wrap"].insert(0, refused["plan"]["fully_shard"]["wrap"][0])
        self.write("refused.json", refused)
        played = self.play("bad.json", "refused.json", "good.json", "missing.json", expect=2)
        self.assertIn('create failed: fully_shard: module "0" is wrapped twice', played.stdout)
        self.assertIn("good.json: 2 ranks, subject reference\n", played.stdout)
        first, second = played.stderr.splitlines()
        self.assertIn("bad.json:3:13: scenario: invalid JSON: syntax error", first)
        self.assertIn("missing.json: No such file", second)
        (again,) = [line for line in played.stdout.splitlines() if line.startswith("  again: ")]
        self.assertTrue(again.endswith("play refused.json"), again)
        # A value of an option may be a word like the name of another scenario.
        worker = pathlib.Path(LAUNCHER).parent / "shardproof-worker"
        (self.folder / "w.json").symlink_to(worker)
        played = self.play("refused.json", "--worker", "./w.json", "good.json", "./w.json", "--ranks=2", expect=2)
        self.assertIn("\n  again: " + LAUNCHER + " play refused.json --worker ./w.json --ranks=2\n", played.stdout)
        elements = self.json("bad.json", "refused.json", "good.json", expect=2)
        self.assertIn("bad.json:3:13: ", elements[0]["error"])
        self.assertIn("is wrapped twice", elements[1]["error"])
        self.assertIsNone(elements[2]["error"])
        self.assertEqual([element["played"] is not None for element in elements], [False, False, True])
        self.assertEqual(elements[2]["played"], self.json("good.json"))
        self.play("refused.json", "good.json", expect=1)
        said = self.play("good.json", "refused.json", "--trace", "t", expect=2).stderr
        self.assertIn("--trace takes one scenario: leave --trace out, or give one scenario", said)

    def test_times_are_in_units_that_fit(self):
        self.overlap["costs"]["collectives"] = {"all_gather": "10ns", "reduce_scatter": "1.5us"}
        for child in self.overlap["model"]["root"]["children"]:
            child |= {"forward_sleep": 0, "backward_sleep": 0}
        self.write("short.json", self.overlap)
        said = self.play("short.json").stdout
        self.assertIn("\ntotal 4.5", said)
        self.assertIn(" µs\n", said)
        self.assertRegex(said, r"a column is [\d.]+ ns; ")
        self.overlap["model"]["root"]["children"][0]["forward_sleep"] = "2.5s"
        self.write("long.json", self.overlap)
        said = self.play("long.json").stdout
        self.assertRegex(said, r"\ntotal 2\.5\d* s\n")
        self.assertRegex(said, r"a column is [\d.]+ ms; ")

    def test_json_has_the_calls_of_the_host_and_their_times(self):
        self.body[:] = ["forward", "backward", {"call": "clip_grad_norm", "max_norm": 0.5}, "step", "capture",
                        "zero_grad", "evaluate", "evaluate"]
        self.overlap["script"]["segments"][0]["iterations"] = 2
        self.write("calls.json", self.overlap)
        played = self.json("calls.json")
        names = [call if isinstance(call, str) else call["call"] for call in self.body]
        for rank in played["ranks"]:
            self.assertEqual([call["call"] for call in rank["calls"]], 2 * names)
            self.assertEqual([call["iteration"] for call in rank["calls"]], len(names) * [0] + len(names) * [1])
            self.assertEqual([call["number"] for call in rank["calls"][:8]], [1, 1, 1, 1, 1, 1, 1, 2])
            ends = [call["end"] for call in rank["calls"]]
            self.assertEqual(ends, sorted(ends))
            self.assertEqual(rank["compute_end"], ends[-1])
            spans = [call["collectives"] for call in rank["calls"]]
            self.assertEqual(spans[0][0], 0)
            self.assertEqual(spans[-1][1], len(rank["collectives"]))
            forward, backward = rank["calls"][:2]
            self.assertEqual(forward["end"] - forward["start"], 85 * MS)
            tags = [rank["collectives"][i]["tag"] for i in range(*backward["collectives"])]
            self.assertEqual(tags.count("0"), 2)
        self.assertEqual(played["compute_end_ns"], max(rank["compute_end"] for rank in played["ranks"]))
        self.assertEqual(len(played["iterations_ns"]), 2)
        for iteration in played["iterations_ns"]:
            self.assertEqual(iteration["evaluate"], 2 * [85 * MS])
        self.assertIn("\n  evaluate            85 ms                  -            -\n", self.play("calls.json").stdout)

    def test_the_norm_of_gradients_before_they_are_clipped(self):
        def norms(ranks, **clip):
            self.body[:] = ["forward", "backward", "capture", {"call": "clip_grad_norm", "max_norm": 2, **clip}]
            self.write("clip.json", self.overlap)
            played = self.json("clip.json", "--ranks", ranks)
            (norm,) = played["gradient_norms"]
            self.assertEqual((norm["iteration"], norm["max_norm"]), (0, 2))
            return norm["norm"], played["ranks"]

        def gradients(ranks):
            for rank in ranks:
                for gradient in rank["iterations"][0]["gradients"].values():
                    yield from floats_of(gradient["hex"])

        for ranks in (1, 2, 3):
            norm, played = norms(ranks)
            self.assertAlmostEqual(norm, sum(value**2 for value in gradients(played)) ** 0.5, delta=1e-6 * norm)
            norm, played = norms(ranks, norm_type="infinity")
            self.assertEqual(norm, max(map(abs, gradients(played))))
        norm, _ = norms(2)
        said = self.play("clip.json").stdout
        self.assertIn(f"\niteration 0: gradients have the norm {norm:.6g} before they are clipped to 2\n", said)
        self.assertEqual(self.json("clip.json", "--subject", "reference,reference")["differences"], [])
        both = self.json("clip.json", "--subject", "reference,reference+gradients_summed", expect=1)
        self.assertIn("bits", [difference["aspect"] for difference in both["differences"]])
        self.overlap["costs"]["host_call"] = "1us"
        self.write("clip.json", self.overlap)
        self.assertEqual(self.json("clip.json")["gradient_norms"], [])

    def test_failures_cite_the_document(self):
        refused = copy.deepcopy(self.overlap)
        refused["plan"]["fully_shard"]["wrap"].insert(0, refused["plan"]["fully_shard"]["wrap"][0])
        self.write("refused.json", refused)
        said = self.play("refused.json", expect=1).stdout
        self.assertNotIn("play_case.cpp", said)
        self.assertIn(f"at {self.folder}/refused.json:{self.line_of('refused.json', 'plan')}\n", said)
        self.body[:] = ["forward", "backward", {"call": "extend", "parameter": "0.weight", "extension": "components"}]
        self.write("late.json", self.overlap)
        said = self.play("late.json", expect=1).stdout
        self.assertNotIn("play_case.cpp", said)
        self.assertIn(f"at {self.folder}/late.json:{self.line_of('late.json', 'extend') - 1}\n", said)
        self.write("race.json", json.loads((ROOT / "docs/scenarios/overlap.json").read_text(encoding="utf-8")))
        said = self.play("race.json", "--fault", "copy_out_before_gather", expect=1).stdout
        self.assertIn(f"at {self.folder}/race.json:", said)
        self.assertNotIn("play_case.cpp", said)

    def test_a_trace_goes_to_standard_output_on_request(self):
        self.write("a.json", self.overlap)
        played = self.play("a.json", "--trace", "-")
        self.assertEqual({event["pid"] for event in json.loads(played.stdout)["traceEvents"]}, {0, 1})
        self.assertTrue(played.stderr.startswith("a.json: 2 ranks, subject reference\n"))
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["a.json"])
        said = self.play("a.json", "--trace", "-", "--json", expect=2).stderr
        self.assertIn("--trace - with --json: both write to standard output", said)

    def test_errors_have_line_and_column(self):
        for text, expected in (
            ('{\n  "version": 2,\n  "version": 2\n}', ':3:3: scenario: duplicate key "version": '),
            ('{\n  "version": 2,\n  "modle": {}\n}', ':3:3: scenario: modle: no such key; closest is "model"; '),
            ('{\n  "version": 2', ":2:15: scenario: invalid JSON: syntax error while parsing object"),
            ("", "cannot read the scenario"),
            ('{"version": 2, "version": ' + 100_000 * "[", ':1:16: scenario: duplicate key "version": remove'),
            (100_000 * "[", "JSON nested deeper than 100 levels"),
        ):
            self.write("bad.json", text)
            self.assertIn(expected, self.play("bad.json", expect=2).stderr)
        self.overlap["costs"]["collectives"]["all_gather"] = "-10ms"
        self.write("negative.json", self.overlap)
        line = self.line_of("negative.json", '"-10ms"')
        said = self.play("negative.json", expect=2).stderr
        place = f"negative.json:{line}:7: scenario: costs.collectives.all_gather"
        self.assertIn(f"{place}: expected a duration from 0", said)


def floats_of(bits):
    return struct.unpack(f">{len(bits) // 8}f", bytes.fromhex(bits))


if __name__ == "__main__":
    LAUNCHER, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
