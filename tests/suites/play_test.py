#!/usr/bin/env python3
"""`shardproof play` on the reference engine: times must follow from the rules of the simulated device, and values must
equal PyTorch's values.

    play_test.py LAUNCHER ROOT [unittest arguments]
"""
import copy
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

MS = 1_000_000


class Play(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.overlap = json.loads((ROOT / "docs/scenarios/overlap.json").read_text(encoding="utf-8"))

    def play(self, scenario, *arguments, expect=0):
        file = scenario
        if isinstance(scenario, dict):
            file = self.folder / "scenario.json"
            file.write_text(json.dumps(scenario), encoding="utf-8")
        result = subprocess.run(
            [LAUNCHER, "play", str(file), *map(str, arguments)],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def totals(self, scenario, ranks):
        return json.loads(self.play(scenario, "--ranks", ranks, "--json").stdout)["totals_ns"]

    def test_times_are_those_of_the_rules(self):
        together = {"forward": 85 * MS, "forward_backward": 245 * MS, "exposed": 20 * MS, "total": 245 * MS}
        alone = {"forward": 75 * MS, "forward_backward": 225 * MS, "exposed": 0, "total": 225 * MS}
        for ranks in (1, 2, 3, 4):
            self.assertEqual(self.totals(self.overlap, ranks), alone if ranks == 1 else together)
        self.overlap["costs"]["single_stream"] = True
        serial = self.totals(self.overlap, 2)
        self.assertEqual((serial["forward"], serial["forward_backward"]), (105 * MS, 315 * MS))

    def test_one_rank_imagines_others(self):
        self.overlap["costs"]["imagined_ranks"] = 2
        for device in ((), ("--device", "cuda", "--backend", CPU_BACKEND)):
            played = json.loads(self.play(self.overlap, "--ranks", 1, "--json", *device).stdout)
            self.assertEqual(
                played["totals_ns"],
                {"forward": 85 * MS, "forward_backward": 245 * MS, "exposed": 20 * MS, "total": 245 * MS},
            )
            self.assertEqual([call["group"] for call in played["ranks"][0]["collectives"]], 9 * [[0, 1]])
        refused = self.play(self.overlap, "--ranks", 2, expect=2).stderr
        self.assertIn(
            "ranks can be imagined (costs.imagined_ranks) in a world of one rank only; this one has 2", refused
        )

    def test_gpus_on_the_cpu_have_the_same_times(self):
        on_gpus = ("--device", "cuda", "--backend", CPU_BACKEND)
        for ranks in (1, 2):
            simulated = json.loads(self.play(self.overlap, "--ranks", ranks, "--json").stdout)
            played = json.loads(self.play(self.overlap, "--ranks", ranks, "--json", *on_gpus).stdout)
            self.assertEqual(played["totals_ns"], simulated["totals_ns"])
            self.assertEqual(played["measured_ns"], simulated["totals_ns"])
            self.assertNotIn("measured_ns", simulated)
            recorded = json.loads(
                self.play(self.overlap, "--ranks", ranks, "--json", "--times", "cupti", *on_gpus).stdout
            )
            self.assertEqual(recorded["measured_ns"], simulated["totals_ns"])
        refused = self.play(self.overlap, "--ranks", 4, "--gpus", 2, *on_gpus, expect=2)
        self.assertIn("a world of 4 ranks needs 4 GPUs, one for each, and may use 2", refused.stderr)
        self.play(self.overlap, "--ranks", 2, "--gpus", 1, "--share-gpus", "--out", "kept", *on_gpus)
        report = json.loads((self.folder / "kept/report.json").read_text(encoding="utf-8"))
        self.assertEqual(report["worlds"][0]["unfit_for_timing"], "2 ranks share 1 GPU")

    def test_an_event_saves_the_wait_for_the_optimizer(self):
        scenario = json.loads((ROOT / "docs/scenarios/optimizer_event.json").read_text(encoding="utf-8"))
        self.assertEqual(self.totals(scenario, 2)["total"], 385 * MS)
        scenario["script"]["segments"][0]["body"].remove("post_optim_event")
        self.assertEqual(self.totals(scenario, 2)["total"], 425 * MS)

    def test_values_equal_the_values_of_pytorch(self):
        golden = json.loads((ROOT / "fixtures/oracles/golden/exact_W2.json").read_text(encoding="utf-8"))
        linear = {"kind": "linear"}
        scenario = {
            "version": 2,
            "model": {
                "root": {
                    "kind": "sequential",
                    "children": [
                        {"name": "l0", **linear, "in_features": 4, "out_features": 6},
                        {"name": "relu", "kind": "relu"},
                        {"name": "l1", **linear, "in_features": 6, "out_features": 3},
                    ],
                },
                "loss": {"kind": "dot"},
                "init_divisor": 1,
            },
            "plan": {
                "optimizer": {"kind": "sgd", "rate": 0.0625},
                "fully_shard": {"wrap": [{"modules": ["l0"]}, {"modules": ["l1"]}, {"modules": [""]}]},
            },
            "script": {
                "input": [2, 4],
                "input_divisor": 1,
                "segments": [{"iterations": 3, "body": ["forward", "backward", "step", "capture", "zero_grad"]}],
            },
        }
        ranks = json.loads(self.play(scenario, "--json").stdout)["ranks"]
        for number, expected in enumerate(golden["iterations"]):
            iterations = [rank["iterations"][number] for rank in ranks]
            if (
                number == 0
            ):  # later values are sums of larger numbers, which depend on their order
                self.assertEqual([i["loss"] for i in iterations], expected["losses"])
            for what, name in (("gradients", "gradients"), ("parameters", "parameters_after")):
                whole = "".join(i[what][parameter]["hex"] for parameter, _ in golden["parameters"] for i in iterations)
                self.assertEqual(whole, "".join(expected[name]["bits"]))

    def test_a_document_of_version_1_plays_as_one_of_version_2(self):
        documents = [
            path
            for path in sorted((ROOT / "docs").glob("*/*.json"))
            if "fully_shard" in json.loads(path.read_text(encoding="utf-8"))["plan"]
        ]  # version 1 had no other kind
        self.assertGreater(len(documents), 20)
        for path in documents:
            with self.subTest(path.name):
                now = json.loads(path.read_text(encoding="utf-8"))
                then = {key: value for key, value in now.items() if key != "version"}
                plan = dict(now["plan"])
                then["plan"] = {"engine": "fully_shard", **plan.pop("fully_shard"), **plan}
                played = [self.played(scenario) for scenario in (now, then)]
                self.assertEqual(played[0], played[1])

    def played(self, scenario):
        """The exit code and the output of a play.

        Without times, the number of the first rank that refuses it, and the line and column of an error.
        """
        file = self.folder / "scenario.json"
        file.write_text(json.dumps(scenario), encoding="utf-8")
        result = subprocess.run(
            [LAUNCHER, "play", str(file), "--ranks", "2", "--json"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        said = re.sub(r"rank \d+, [\d.]+ m?s, ", "", result.stderr)
        return result.returncode, result.stdout, re.sub(r"(scenario\.json):\d+(:\d+)?", r"\1", said)

    def test_issued_calls_are_printed_in_order(self):
        rank = json.loads(self.play(self.overlap, "--json").stdout)["ranks"][1]
        self.assertEqual(
            [(c["kind"], c["tag"], c["start"] // MS) for c in rank["collectives"]],
            [
                ("all_gather", "0", 0),
                ("all_gather", "1", 10),
                ("all_gather", "2", 20),
                ("all_gather", "2", 60),
                ("all_gather", "1", 85),
                ("reduce_scatter", "2", 135),
                ("all_gather", "0", 145),
                ("reduce_scatter", "1", 185),
                ("reduce_scatter", "0", 235),
            ],
        )
        self.assertEqual(
            rank["collectives"][0] | {"start": 0, "end": 0},
            {
                "kind": "all_gather",
                "group": [0, 1],
                "count": 8,
                "dtype": "f32",
                "op": "none",
                "tag": "0",
                "start": 0,
                "end": 0,
            },
        )
        spans = {
            (s["stream"], s["label"], s["start"] // MS, s["end"] // MS) for s in rank["spans"] if s["kind"] == "forward"
        }
        self.assertEqual(spans, {("compute", "0", 10, 35), ("compute", "1", 35, 60), ("compute", "2", 60, 85)})

    def test_a_race_is_printed_and_fails(self):
        said = self.play(ROOT / "docs/scenarios/overlap.json", "--fault", "copy_out_before_gather", expect=1).stdout
        self.assertIn('  ranks 0, 1\n  all_gather "0" on stream all_gather (0 ms..10 ms) writes bytes 0..64', said)
        self.assertIn("again: ", said)
        again = said[said.rindex("again: ") + len("again: "):].strip()
        self.assertTrue(again.endswith("docs/scenarios/overlap.json --fault copy_out_before_gather"), again)

    def test_a_compiled_step_is_in_each_captured_iteration(self):
        scenario = json.loads((ROOT / "docs/scenarios/compiled.json").read_text(encoding="utf-8"))
        scenario["plan"]["replicate"]["compile"] = {}
        scenario["script"]["segments"][0]["body"] = ["forward", "backward", "capture", "step", "zero_grad"]
        for rank in json.loads(self.play(scenario, "--json").stdout)["ranks"]:
            self.assertEqual(rank["compiled_steps"], [{"iteration": i, "backward": 1, "plan": 0} for i in range(2)])
            (plan,) = rank["plans"]
            self.assertEqual([graph["pass"] for graph in plan], ["forward", "backward"])
            self.assertEqual([iteration["compiled"] for iteration in rank["iterations"]], [plan, plan])
            reductions = [node for node in plan[1]["nodes"] if node["kind"] == "all_reduce"]
            played = [call for call in rank["collectives"] if call["kind"] == "all_reduce"]
            self.assertEqual([call["tag"] for call in played], 2 * [node["label"] for node in reductions])
        self.assertNotIn("compiled_steps", json.loads(self.play(self.overlap, "--json").stdout)["ranks"][0])

    def test_hooks_are_shown_with_the_reductions_that_went_through_them(self):
        hook = {"call": "register_hook", "hook": "doubled", "state": 7}
        self.overlap["plan"] = {"flat_shard": {"wrap": ["0", "1", "2", ""]}}
        body = self.overlap["script"]["segments"][0]["body"]
        body[:] = [hook | {"module": "1", "refused": True}, "forward", "backward", hook, "forward", "backward"]
        said = self.play(self.overlap).stdout
        self.assertEqual(said.count(", by the hook doubled, state 7\n"), 3)
        self.assertIn(
            "\nranks 0, 1: calls of gradient hooks\n"
            '  iter 0 backward: doubled at reduction, state 7, of "2", 16 f32, collective ',
            said,
        )
        self.assertIn(
            '\nrefused on rank 1: iter 0 register_hook: flat_shard: "1" is not a root: register the hook at ""\n', said
        )
        for rank in json.loads(self.play(self.overlap, "--json").stdout)["ranks"]:
            self.assertEqual([call["label"] for call in rank["hooks"]], ["2", "1", "0"])
            for call in rank["hooks"]:
                self.assertEqual(
                    (call["hook"], call["point"], call["state"], call["count"], call["dtype"]),
                    ("doubled", "reduction", 7, 16, "f32"),
                )
                issued = rank["collectives"][call["collective"]]
                self.assertEqual((issued["kind"], issued["tag"]), ("reduce_scatter", call["label"]))
            reductions = [number for number, call in enumerate(rank["collectives"]) if call["kind"] == "reduce_scatter"]
            self.assertEqual([call["collective"] for call in rank["hooks"]], reductions[3:])
            self.assertEqual(
                rank["refusals"], ['iter 0 register_hook: flat_shard: "1" is not a root: register the hook at ""']
            )

    def side_by_side(self, scenario, first, second, *arguments, expect=0):
        return json.loads(
            self.play(scenario, "--subject", f"{first},{second}", "--json", *arguments, expect=expect).stdout
        )

    def differences(self, scenario, fault, *arguments):
        both = self.side_by_side(scenario, "reference", "reference+" + fault, *arguments, expect=1)
        self.assertFalse(both["alike"])
        return {difference["aspect"]: difference for difference in both["differences"]}

    def test_a_subject_is_like_itself_by_either_name(self):
        self.overlap["script"]["segments"][0]["body"] += ["step", "capture"]
        both = self.side_by_side(self.overlap, "reference", "reference")
        self.assertEqual((both["alike"], both["differences"], both["subjects"]), (True, [], ["reference", "reference"]))
        self.assertEqual(both["compared"], {"ranks": 2, "steps": 30, "waits": True, "collectives": 18, "values": 98})
        alone = json.loads(self.play(self.overlap, "--json").stdout)
        self.assertEqual([played["result"] for played in both["played"]], [alone, alone])
        said = self.play(self.overlap, "--subject", "reference,reference").stdout.splitlines()
        self.assertEqual(said[0], f"{self.folder}/scenario.json: 2 ranks, reference (1) against reference (1)")
        self.assertEqual([line.split()[1].rstrip(":") for line in said[1:]], 5 * ["alike"])

    def test_differences_of_two_subjects_are_listed_by_aspect(self):
        self.overlap["script"]["segments"][0]["body"] += ["step", "capture"]
        found = self.differences(self.overlap, "no_backward_prefetch")
        self.assertEqual(set(found), {"totals", "order"})
        self.assertEqual(
            found["totals"],
            {"aspect": "totals", "what": "forward_backward", "rank": 0, "iteration": 0, "values": ["245 ms", "285 ms"]},
        )
        found = self.differences(self.overlap, "gradients_summed")
        self.assertEqual(set(found), {"counts", "bits"})
        self.assertEqual(
            (found["bits"]["what"], found["bits"]["iteration"], found["bits"]["index"]), ('gradient "0.weight"', 0, 0)
        )
        found = self.differences(self.overlap, "gathers_twice")
        self.assertEqual(found["counts"]["values"], ["6", "12"])
        found = self.differences(self.overlap, "copy_out_before_gather")
        self.assertTrue(found["verdict"]["values"][1].startswith("failed\n"))
        self.assertIn("nothing orders the two", found["verdict"]["values"][1])
        self.assertEqual(found["order"]["values"], ["waits", "need not wait"])
        self.assertEqual(
            self.differences(self.overlap, "gathers_when_needed", "--ranks", "3")["totals"]["values"],
            ["85 ms", "105 ms"],
        )

    def test_a_refusing_subject_differs_from_a_playing_one_and_two_refusing_subjects_agree(self):
        self.overlap["plan"]["fully_shard"]["wrap"].insert(0, self.overlap["plan"]["fully_shard"]["wrap"][0])
        said = self.play(self.overlap, "--subject", "reference,reference").stdout
        self.assertIn('verdict  alike: neither plays it to its end\nreference: failed\n', said)
        self.assertEqual(said.count('create failed: fully_shard: module "0" is wrapped twice'), 2)
        both = self.side_by_side(self.overlap, "reference+plan_not_checked", "reference", expect=1)
        self.assertEqual([difference["aspect"] for difference in both["differences"]], ["verdict"])
        self.assertEqual([played["verdict"] for played in both["played"]], ["passed", "failed"])
        self.assertIsNone(both["played"][1]["result"])

    def test_wrong_arguments_for_two_subjects_are_refused(self):
        for arguments, expected in (
            (("--subject", "reference,"), "name two subjects as A,B"),
            (("--subject", "reference,nobody"), "unknown subject 'nobody'"),
            (("--subject", "reference,reference+nothing"), "unknown fault 'nothing'"),
            (("--subject", "reference,reference", "--fault", "one_stream"), "write A+one_stream in --subject"),
            (("--subject", "reference,reference", "--trace", "t.json"), "a trace is of one"),
            (("--subject", "reference,reference", "--ulps", "-1"), "a whole number"),
            (("--subject", "reference,reference", "--ranks", "1,2"), "one world size"),
            (("--ulps", "1"), "values of two subjects are compared"),
        ):
            self.assertIn(expected, self.play(self.overlap, *arguments, expect=2).stderr)
        self.overlap["costs"]["imagined_ranks"] = 2
        said = self.play(self.overlap, "--subject", "reference,reference", "--ranks", 2, expect=2).stderr
        self.assertIn("cannot be played: ranks can be imagined", said)

    def test_both_runs_are_kept_on_request(self):
        self.play(self.overlap, "--subject", "reference,reference+one_stream", "--out", self.folder / "kept", expect=1)
        for name, fault in (("1-reference", None), ("2-reference+one_stream", "one_stream")):
            report = json.loads((self.folder / "kept" / name / "report.json").read_text(encoding="utf-8"))
            self.assertEqual(report["subject"]["fault"], fault)

    def test_a_failed_case_leaves_what_it_played(self):
        def shardproof(*arguments, expect):
            result = subprocess.run(
                [LAUNCHER, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=120
            )
            self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
            return result.stdout

        said = shardproof("run", "overlap/no_race*", "--ranks", "2", "--fault", "copy_out_before_gather", expect=1)
        commands = [line.split(": ", 1)[1] for line in said.splitlines() if line.startswith("  what it played: ")]
        self.assertTrue(commands)
        for command in commands:
            words = shlex.split(command)
            self.assertEqual(words[1], "play")
            self.assertIn("nothing orders the two", shardproof(*words[1:], expect=1))
            self.assertIn("collectives, in the order", shardproof("play", words[2], expect=0))

    def test_undeclared_memory_can_be_hidden(self):
        def values(*arguments):
            ranks = json.loads(self.play(self.overlap, "--json", *arguments).stdout)["ranks"]
            return [rank["iterations"] for rank in ranks]

        self.overlap["script"]["segments"][0]["body"] += ["step", "capture"]
        right = values()
        self.assertTrue(right[0][0]["gradients"])
        self.assertEqual(values("--fault", "reads_undeclared"), right)
        self.overlap["costs"]["hide_undeclared_memory"] = True
        self.assertEqual(values(), right)
        said = self.play(self.overlap, "--fault", "reads_undeclared", expect=1).stdout
        self.assertIn("leaves elements unwritten", " ".join(said.split()))  # a long line is wrapped

    def test_a_refusal_of_the_subject_is_printed_once(self):
        self.overlap["plan"]["fully_shard"]["wrap"].insert(0, self.overlap["plan"]["fully_shard"]["wrap"][0])
        said = self.play(self.overlap, expect=1).stdout
        self.assertIn('  ranks 0, 1\n  create failed: fully_shard: module "0" is wrapped twice\n', said)
        self.assertEqual(said.count("create failed"), 1)

    def test_a_script_that_does_not_fit_the_world_is_refused_before_any_rank_starts(self):
        body = self.overlap["script"]["segments"][0]["body"]
        at = [call if isinstance(call, str) else call["call"] for call in body].index("forward")
        body[at] = {"call": "forward", "ranks": [1, 0]}
        document = self.folder / "scenario.json"
        said = self.play(self.overlap, "--ranks", "3", expect=2).stderr
        self.assertRegex(
            said,
            rf"^shardproof: {document}:1:\d+: scenario: script.segments\[0\].body\[\d+\] \(backward\): "
            r"rank 2 has run no forward before it\n$",
        )
        body[at] = {"call": "forward", "ranks": [0, 1, 7]}
        said = self.play(self.overlap, expect=2).stderr
        self.assertRegex(
            said,
            rf"^shardproof: {document}:1:\d+: scenario: script.segments\[0\].body\[{at}\].ranks: "
            r"rank 7 is not in a world of 2: use --ranks 8 or more, or set \"world_size\"\n$",
        )
        said = self.play(self.overlap, "--ranks", "8", expect=2).stderr
        self.assertIn("(backward): rank 2 has run no forward before it", said)

    def test_a_bad_document_is_refused_before_any_rank_starts(self):
        broken = copy.deepcopy(self.overlap)
        broken["model"]["root"]["children"][1]["in_features"] = 5
        said = self.play(broken, expect=2).stderr
        self.assertRegex(
            said,
            rf'^shardproof: {self.folder / "scenario.json"}:1:\d+: scenario: model.root.children\[1\] \("1"\): '
            r"takes 5 features, but 4 arrive\n$",
        )
        self.assertIn("No such file", self.play(self.folder / "nowhere.json", expect=2).stderr)
        os.mkfifo(self.folder / "pipe")
        self.assertIn("it must be a regular file", self.play(self.folder / "pipe", expect=2).stderr)
        (self.folder / "text.json").write_text("not JSON", encoding="utf-8")
        said = self.play(self.folder / "text.json", expect=2).stderr
        self.assertTrue(
            said.startswith(
                f"shardproof: {self.folder / 'text.json'}:1:2: scenario: invalid JSON: syntax error "
            ),
            said,
        )
        for arguments, expected in (
            (("--ranks", "0"), "1 to 1024"),
            (("--ranks", "2,4"), "one world size"),
            (("--subject", "x"), "unknown subject 'x'"),
            (("--fault", "x"), "unknown fault 'x'"),
        ):
            self.assertIn(expected, self.play(self.overlap, *arguments, expect=2).stderr)

    def test_requested_files_are_written(self):
        self.play(self.overlap, "--out", self.folder / "kept", "--trace", self.folder / "trace.json")
        report = json.loads((self.folder / "kept/report.json").read_text(encoding="utf-8"))
        self.assertEqual([(c["id"], c["verdict"]) for c in report["cases"]], [("play/scenario[W=2]", "passed")])
        events = json.loads((self.folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        self.play(self.overlap)
        self.assertEqual({entry.name for entry in self.folder.iterdir()}, {"kept", "scenario.json", "trace.json"})

    def test_a_trace_overwrites_nothing_and_is_refused_before_anything_runs(self):
        precious = self.folder / "precious"
        precious.write_text("mine", encoding="utf-8")
        said = self.play(self.overlap, "--trace", precious, "--out", self.folder / "kept", expect=2)
        self.assertEqual(
            said.stderr,
            f"shardproof: --trace: output unusable: {precious} already exists, and shardproof does not overwrite it: "
            "name a new file\n",
        )
        self.assertEqual(precious.read_text(encoding="utf-8"), "mine")
        said = self.play(
            self.overlap, "--trace", self.folder / "none/trace.json", "--out", self.folder / "kept", expect=2
        )
        self.assertIn("--trace: output unusable: open ", said.stderr)
        self.assertEqual(said.stdout, "")
        self.assertFalse((self.folder / "kept").exists())
        self.play(self.overlap, "--trace", "/dev/null")
        os.mkfifo(self.folder / "pipe")
        said = self.play(self.overlap, "--trace", self.folder / "pipe", expect=2)
        self.assertIn("no program reads from this pipe: start its reader first", said.stderr)
        self.play(self.overlap, "--trace", self.folder / "kept/trace.json", "--out", self.folder / "kept")
        self.assertTrue((self.folder / "kept/trace.json").exists())

    def test_measured_times_have_their_source_and_the_reason_why_they_are_unfit(self):
        shared = ("--device", "cuda", "--backend", CPU_BACKEND, "--gpus", "1", "--share-gpus")
        self.assertIn(
            "\nmeasured times come from events; unfit for timing: 2 ranks share 1 GPU\n",
            self.play(self.overlap, *shared).stdout,
        )
        played = json.loads(self.play(self.overlap, "--json", *shared).stdout)
        self.assertEqual((played["times"], played["unfit_for_timing"]), ("events", "2 ranks share 1 GPU"))
        played = json.loads(self.play(self.overlap, "--json", *shared[:4], "--times", "cupti").stdout)
        self.assertEqual(played["times"], "cupti")
        self.assertNotIn("unfit_for_timing", played)
        self.assertNotIn("times", json.loads(self.play(self.overlap, "--json").stdout))


if __name__ == "__main__":
    LAUNCHER, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
    CPU_BACKEND = pathlib.Path(LAUNCHER).parents[1] / "lib/libshardproof_cpu_vendor.so"
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
