#!/usr/bin/env python3
"""Checks the suites as a whole: every clause has a case and a fault, every case notices a fault, every seed test has a
case, and the report is unchanged.

    suite_test.py LAUNCHER ROOT [unittest arguments]
"""
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from digests import digests

STRATEGIES = ("no_shard", "full_shard", "shard_grad_op")
SHARDING = STRATEGIES[1:]
EXEC_ORDER = ([f"test_invalid_first_iter_order[strategy={s}]" for s in SHARDING]
              + [f"test_invalid_later_iter_order[strategy={s},after={n}]" for s in SHARDING for n in (1, 3)]
              + [f"test_train_eval[strategy={s}]" for s in SHARDING])
COMM_HOOKS = [
    f"test_{name}[strategy={s}]"
    for s in STRATEGIES
    for name in ("default_communication_hook_behavior", "registering_hook_non_root", "registering_hook_submodules")
] + [
    f"test_{name}[strategy={s},wrapping={w}]"
    for s in STRATEGIES
    for w in ("false", "true")
    for name in ("default_communication_hook_initialization", "fp16_hook", "bf16_hook")
]
HYBRID_HOOKS = [f"test_registering_hook_hybrid_strategy[strategy={s}]" for s in ("hybrid", "hybrid_zero2")]
# The tests of the seed files that the suites restate.
REPLICATE = ("test_ddp_tp", "test_bucketing_coalesced_op", "test_bucketing_concat_op",
             *(f"test_compile_{what}" for what in ("cpu", "cpu_no_sync", "gpu", "bf16", "fp16", "backward_only")))
SEEDS = {
    "test_fully_shard_extensions.py::test_all_gather_extensions_monkey_patch",
    "test_fully_shard_extensions.py::test_all_gather_extensions_end_to_end",
    "test_fully_shard_extensions.py::test_all_gather_extensions_train_parity",
    "test_fully_shard_overlap.py::test_fully_shard_training_overlap",
    "test_fully_shard_overlap.py::test_fully_shard_post_optim_event_overlap",
    *(f"test_fsdp_exec_order.py::{test}" for test in EXEC_ORDER),
    *(f"test_replicate_with_compiler.py::{test}" for test in REPLICATE),
    *(f"test_fsdp_comm_hooks.py::{test}" for test in COMM_HOOKS + HYBRID_HOOKS),
}
MS = 1_000_000
REMEDY = "if you want this change: shardproof stable RUN | tests/suites/digests.py > tests/suites/default_digests.json"


def shardproof(*arguments, expect=0):
    result = subprocess.run([LAUNCHER, *map(str, arguments)], capture_output=True, text=True, timeout=880)
    if result.returncode != expect:
        raise AssertionError(
            f"shardproof {' '.join(map(str, arguments))} ended with {result.returncode}, not {expect}:\n"
            f"{result.stdout}\n{result.stderr}"
        )
    return result.stdout


class Catalogue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.every_case = json.loads(shardproof("list", "--json"))
        cls.cases = [case for case in cls.every_case if not case.get("on_request")]
        tables = sorted((ROOT / "suites").glob("*/clauses.md"))
        cls.suites = {table.parent.name for table in tables}
        rows = [[cell.strip() for cell in row.split("|")] for table in tables
                for row in table.read_text(encoding="utf-8").splitlines() if re.match(r"\| [A-Z]+-\d+ \|", row)]
        cls.kinds = {row[1]: row[2] for row in rows}
        if len(cls.kinds) != len(rows):
            raise AssertionError("two tables have the same clause")

    def test_every_clause_has_a_case_and_a_fault(self):
        self.assertGreater(len(self.kinds), 10)
        rows = {row["id"]: row for row in json.loads(shardproof("list", "--clauses", "--json"))}
        self.assertEqual(set(rows), set(self.kinds))
        for clause, row in rows.items():
            with self.subTest(clause=clause):
                self.assertTrue(row["cases"])
                self.assertTrue(row["faults"])

    def test_every_fault_is_noticed_by_its_case(self):
        """One run plays only these cases. `KillMatrix` plays all cases."""
        rows = json.loads(shardproof("list", "--clauses", "--json"))
        faults = {fault for row in rows for fault in row["faults"]}
        self.assertEqual(faults, set(NOTICED_BY), "tests/suites/noticed_by.json has one case for each fault")
        noticed_by = {
            fault["name"]: fault["by"]
            for fault in json.loads(shardproof("faults", "--json", *sorted(set(NOTICED_BY.values()))))
        }
        for fault, case in NOTICED_BY.items():
            with self.subTest(fault=fault):
                self.assertIn(case, noticed_by.get(fault, []))

    def test_every_suite_has_cases(self):
        self.assertEqual({case["suite"] for case in self.cases}, self.suites)

    def test_a_case_on_request_differs_from_another_case_only_in_its_world(self):
        def name(case):
            return case["id"].split("[")[0], {key: value for key, value in case["params"].items() if key != "W"}

        usual = [name(case) for case in self.cases]
        for case in self.every_case:
            if case.get("on_request"):
                self.assertIn(name(case), usual)

    def test_no_case_has_both_required_and_reference_clauses(self):
        self.assertEqual(set(self.kinds.values()), {"required", "reference"})
        for case in self.cases:
            with self.subTest(case=case["id"]):
                kinds = {self.kinds[clause] for clause in case["clauses"]}
                self.assertEqual(kinds, {"reference"} if "reference" in case["tags"] else {"required"})

    def test_profiles_select_cases_by_their_needs_and_clauses(self):
        def listed(*arguments):
            return {case["id"]: case for case in json.loads(shardproof("list", "--json", *arguments))}

        profiles = {profile["name"]: profile for profile in json.loads(shardproof("list", "--profiles", "--json"))}
        self.assertEqual(set(profiles), {"pytorch-compatible", "eager", "compiled", "core", "multi", "timing", "full"})
        self.assertEqual([name for name, profile in profiles.items() if profile["default"]], ["pytorch-compatible"])
        everything = {case["id"]: case for case in self.every_case}
        timing = {id for id, case in everything.items() if "timing" in case["tags"]}
        required = {
            id for id, case in everything.items() if all(self.kinds[clause] == "required" for clause in case["clauses"])
        }
        alone = {id for id, case in everything.items() if case["world_size"] == 1}
        usual = {id for id, case in everything.items() if "large" not in case["tags"]} - timing
        compiled = {id for id, case in everything.items() if "compiled_step" in case["needs"]} & usual
        expected = {
            "full": set(everything),
            "pytorch-compatible": usual,
            "eager": usual - compiled,
            "compiled": compiled,
            "timing": timing,
            "core": required & alone & usual,
            "multi": (required - alone) & usual,
        }
        for name, ids in expected.items():
            with self.subTest(profile=name):
                self.assertEqual(profiles[name]["cases"], len(ids))
                if ids:
                    self.assertEqual(set(listed("--profile", name)), ids)
                else:
                    shardproof("list", "--profile", name, expect=2)

    def test_the_guide_names_every_profile(self):
        guide = (ROOT / "docs/skips-and-waivers.md").read_text(encoding="utf-8")
        for profile in json.loads(shardproof("list", "--profiles", "--json")):
            self.assertIn(f"| `{profile['name']}` |", guide)

    def test_no_seed_test_is_missing(self):
        self.assertEqual((len(EXEC_ORDER), len(COMM_HOOKS), len(HYBRID_HOOKS)), (8, 27, 2))
        ids = {case["id"] for case in self.every_case}
        listed = {}
        for line in shardproof("list", "--seeds").splitlines():
            if line.startswith(" "):
                listed[seed].append(line.strip())
            elif line:
                seed = line
                listed[seed] = []
        self.assertEqual(set(listed), SEEDS)
        for seed, cases in listed.items():
            self.assertTrue(cases, seed)
            self.assertLessEqual(set(cases), ids)

    def test_ids_are_unique_and_say_the_world(self):
        ids = [case["id"] for case in self.every_case]
        self.assertEqual(len(ids), len(set(ids)))
        for case in self.every_case:
            self.assertIn(f"W={case['world_size']}", case["id"])


class Attribution(unittest.TestCase):
    """A failure names its own clause in every case."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = pathlib.Path(folder.name)

    def failed_cases(self, fault, *filters):
        out = self.out / fault
        text = shardproof("run", *filters, "--ranks", "2", "--fault", fault, "--out", out, "--overwrite", expect=1)
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        return [case for case in report["cases"] if case["verdict"] != "passed"], text

    @staticmethod
    def named(case):
        return {clause for failure in case["failures"] for clause in failure["clauses"]}

    def test_a_missing_wait_breaks_an_ordering_clause_in_each_case_and_is_shown_once_for_each_kind_of_engine(self):
        cases, text = self.failed_cases("copy_out_before_gather", "overlap", "extensions", "exec_order", "comm_hooks")
        self.assertGreater(len(cases), 300)
        self.assertEqual([case["id"] for case in cases if "OVL-4" not in self.named(case)], [])
        # Cases about values, bits and times report the race, and no case reports wrong values.
        values = {"OVL-10", "EXT-7", "EXT-41", "EXO-14"}
        self.assertEqual([case["id"] for case in cases if self.named(case) & values], [])
        self.assertLessEqual(text.count("\n  again: "), 4)
        self.assertLess(text.count("\n"), 120)

    def test_races_name_the_clause_of_their_memory(self):
        for fault, clause, case in (
            ("gather_before_step", "OVL-5", "overlap/no_race"),
            ("reduce_before_backward", "OVL-6", "overlap/no_race"),
            ("gathered_released_early", "OVL-7", "overlap/no_race"),
            ("post_hook_beside_streams", "EXT-8", "extensions/one_group"),
            ("bucket_not_awaited", "REP-4", "replicate/train_parity"),
            ("sum_over_parts_not_awaited", "REP-34", "replicate/ddp_tp"),
        ):
            with self.subTest(fault=fault):
                cases, _ = self.failed_cases(fault, case)
                self.assertTrue(cases)
                self.assertEqual([case["id"] for case in cases if clause not in self.named(case)], [])

    def test_a_failure_names_only_the_clauses_that_it_breaks(self):
        parity = "extensions/train_parity[W=2,form=full,optimizer=sgd,reshard=true,rows=uneven]"
        for fault, case, clauses in (
            ("later_steps_twice", parity, {"EXT-7"}),
            ("pre_hook_called_twice", parity, {"EXT-2"}),
            ("later_steps_twice", "overlap/mesh[W=2,replicas=2,reshard=true]", {"OVL-10"}),
            ("later_steps_twice", "replicate/train_parity[W=2,gradients=copies,many=true]", {"REP-1"}),
            ("gradients_kept_narrow", "extensions/under_a_policy[W=2,param=bf16,reshard=true]", {"EXT-7", "EXT-22"}),
            ("recomputes", "overlap/post_optim_event[W=2,event=false]", {"OVL-14"}),
        ):
            with self.subTest(fault=fault, case=case):
                cases, _ = self.failed_cases(fault, case)
                self.assertEqual([self.named(each) for each in cases], [clauses])

    def test_a_time_is_in_milliseconds_and_names_the_collectives_that_nothing_hides(self):
        cases, text = self.failed_cases("one_stream", "overlap/training_overlap[W=2]")
        self.assertEqual(self.named(cases[0]), {"OVL-1", "OVL-2"})
        self.assertIn("iteration 0: forward takes 105 ms, but the expected time is at most 87 ms\n", text)
        self.assertIn(
            'no computation hides all_gather "0" (10 ms), all_gather "1" (10 ms), all_gather "2" (10 ms) and 6 more\n',
            text,
        )

    def test_live_buffers_and_double_gathers_are_described(self):
        _, text = self.failed_cases("gathers_twice", "overlap/accumulation")
        self.assertRegex(
            text, r'group "\w*" is gathered at \S+ ms, while its parameters are whole or are being gathered already'
        )
        _, text = self.failed_cases("reduce_inputs_kept", "overlap/accumulation")
        self.assertRegex(
            text, r'at "iter \d+ backward end", \d+ buffers of the class reduce_input are alive, but 0 may be'
        )
        self.assertRegex(text, r'alive: "')

    def test_different_collectives_fail_their_clause(self):
        cases, text = self.failed_cases("ready_order_not_shared", "replicate/order_differs")
        self.assertTrue(cases)
        for case in cases:
            self.assertEqual(self.named(case), {"REP-3"})
            self.assertEqual({failure["macro"] for failure in case["failures"]}, {"equal collectives"})
        self.assertRegex(text, r"rank 0.*all_reduce.*rank 1.*all_reduce")
        self.assertNotIn("unexpected exception", text)

    def test_all_ids_in_the_checks_are_in_the_tables(self):
        known = {row["id"] for row in json.loads(shardproof("list", "--clauses", "--json"))}
        cited = {}
        for file in sorted((ROOT / "suites").rglob("*.?pp")):
            for clause in re.findall(r'"([A-Z]{3}-\d+)"', file.read_text(encoding="utf-8")):
                cited.setdefault(clause, file.name)
        self.assertGreater(len(cited), 100)
        self.assertEqual({clause: file for clause, file in cited.items() if clause not in known}, {})

    def test_a_case_cites_the_clauses_of_the_scopes_in_its_body(self):
        case = re.compile(r'^RANKED_TEST_CASE\("([^"]+)", clauses\(([^)]*)\)(.*?)^\}$', re.M | re.S)
        found = 0
        for file in sorted((ROOT / "suites").rglob("*.cpp")):
            for name, cited, body in case.findall(file.read_text(encoding="utf-8")):
                scopes = set(re.findall(r'"([A-Z]{3}-\d+)"', " ".join(re.findall(r'\bunder\(([^)]*)\)', body))))
                found += len(scopes)
                with self.subTest(case=name):
                    self.assertLessEqual(scopes, set(re.findall(r'"([^"]+)"', cited)))
        self.assertGreater(found, 50)


class KillMatrix(unittest.TestCase):
    """Every fault on every case that has a clause of it."""

    @classmethod
    def setUpClass(cls):
        cls.cases = [case for case in json.loads(shardproof("list", "--json"))
                     if not case.get("on_request") and "large" not in case["tags"]]
        cls.faults = json.loads(shardproof("faults", "--json"))

    def test_the_declared_case_notices_its_fault(self):
        by = {fault["name"]: fault["by"] for fault in self.faults}
        self.assertEqual([fault for fault, case in NOTICED_BY.items() if case not in by[fault]], [])

    def test_every_fault_is_noticed_by_a_case_whose_clause_it_breaks(self):
        clauses = {case["id"]: set(case["clauses"]) for case in self.cases}
        self.assertGreaterEqual(len(self.faults), 6)
        for fault in self.faults:
            with self.subTest(fault=fault["name"]):
                self.assertTrue(fault["killed"])
                self.assertTrue(fault["by"])
                for case in fault["by"]:
                    self.assertTrue(clauses[case] & set(fault["clauses"]), case)

    def test_every_case_notices_a_fault(self):
        useful = {case for fault in self.faults for case in fault["by"]}
        self.assertEqual([case["id"] for case in self.cases if case["id"] not in useful], [])

    def test_every_clause_that_a_fault_breaks_is_named_by_a_failure(self):
        for fault in self.faults:
            with self.subTest(fault=fault["name"]):
                self.assertEqual(fault["named"], sorted(fault["clauses"]))

    def test_cases_that_compare_with_the_serial_model_notice_every_wrong_value(self):
        """An infinite loss must not widen a tolerance. A loss with a wrong last digit must not hide later errors."""
        cases = {
            case["id"]: case["world_size"] for case in self.cases if case["id"].startswith("overlap/values_exact[")
        }
        self.assertGreaterEqual(len(cases), 8)
        several_steps = {case for case, ranks in cases.items() if ranks != 3}  # at 3 ranks, values are not exact
        by = {fault["name"]: set(fault["by"]) for fault in self.faults}
        for fault, noticing in (("loss_infinite", set(cases)), ("later_steps_twice", several_steps)):
            with self.subTest(fault=fault):
                self.assertEqual(noticing - by[fault], set())


class Runs(unittest.TestCase):
    """Runs of the suites, each in its own folder."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name)

    def run_suite(self, name, *arguments, expect=0):
        shardproof("run", *arguments, "--out", self.out / name, expect=expect)
        return json.loads((self.out / name / "report.json").read_text(encoding="utf-8"))


class Reports(Runs):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.default = pathlib.Path(folder.name) / "default"
        shardproof("run", "--out", cls.default)
        cls.default_report = json.loads((cls.default / "report.json").read_text(encoding="utf-8"))

    def test_the_numbers_of_the_seed(self):
        cases = {case["id"]: case for case in self.default_report["cases"]}

        def value(case, name):
            return cases[case]["measurements"][name]["value"]

        for world in (1, 2, 3, 4):
            alone = world == 1
            overlap = f"overlap/training_overlap[W={world}]"
            self.assertEqual(value(overlap, "forward_ns"), (75 if alone else 85) * MS)
            self.assertEqual(value(overlap, "forward_backward_ns"), (225 if alone else 245) * MS)
            self.assertEqual(value(overlap, "serial_forward_ns"), (75 if alone else 105) * MS)
            self.assertEqual(value(overlap, "serial_forward_backward_ns"), (225 if alone else 315) * MS)
            for event in ("true", "false"):
                expected = 375 if alone else 385 if event == "true" else 425
                self.assertEqual(
                    value(f"overlap/post_optim_event[W={world},event={event}]", "five_iterations_ns"), expected * MS
                )

    def test_generated_cases_play_each_pair_of_features_that_some_scenario_can_have(self):
        combinable = json.loads(
            subprocess.run(
                [pathlib.Path(LAUNCHER).with_name("shardproof-worker"), "--list-json"],
                stdout=subprocess.PIPE,
                check=True,
                timeout=60,
            ).stdout
        )["combinable"]
        said = {case["id"] for case in self.default_report["cases"] if "combined" in case}
        self.assertEqual(said, {case["id"] for case in self.default_report["cases"] if "/generated[" in case["id"]})
        self.assertEqual({kind["engine"] for kind in combinable}, {"fully_shard", "flat_shard", "replicate"})
        for kind in combinable:
            with self.subTest(engine=kind["engine"]):
                played = {pair for case in self.default_report["cases"] if case.get("engine") == kind["engine"]
                          for pair in itertools.combinations(sorted(case.get("combined", [])), 2)}
                possible = set(itertools.combinations(kind["features"], 2)).difference(map(tuple, kind["excluded"]))
                self.assertGreater(len(possible), 400)
                self.assertEqual(possible.difference(played), set())

    def test_the_stable_part_equals_the_file_in_the_tree(self):
        kept = json.loads((ROOT / "tests/suites/default_digests.json").read_text(encoding="utf-8"))
        found = digests(json.loads(shardproof("stable", self.default)))
        changed = [
            case for case in {**kept["cases"], **found["cases"]} if kept["cases"].get(case) != found["cases"].get(case)
        ]
        self.assertEqual(changed, [], REMEDY)
        self.assertEqual(found, kept, REMEDY)

    def test_the_statement_in_the_docs_is_the_one_of_this_run(self):
        """Only the date differs."""
        def undated(text):
            return re.sub(r"^\| date \| .* \|$", "| date |", text, flags=re.M)

        kept = (ROOT / "docs/statements/reference.md").read_text(encoding="utf-8")
        self.assertEqual(
            undated(kept), undated(shardproof("statement", self.default)),
            "if you want this change: shardproof statement RUN > docs/statements/reference.md",
        )

    def test_worlds_side_by_side_make_the_same_report(self):
        self.run_suite("three", "--jobs", "3")
        difference = json.loads(shardproof("diff", self.default, self.out / "three", "--json"))
        self.assertEqual(len(difference["changes"]), len(self.default_report["cases"]))
        self.assertEqual({change["change"] for change in difference["changes"]}, {"unchanged"})
        self.assertEqual(shardproof("stable", self.default), shardproof("stable", self.out / "three"))

    def test_two_runs_of_one_seed_are_equal(self):
        for name in ("first", "second"):
            self.run_suite(name, "overlap", "--ranks", "2", "--seed", "7")
        self.assertEqual(shardproof("stable", self.out / "first"), shardproof("stable", self.out / "second"))

    def test_a_run_of_a_whole_profile_is_not_partial(self):
        whole = self.run_suite("whole", "--profile", "core")
        self.assertEqual((whole["profile"], whole["run"]["partial"]), ("core", False))
        on_request = [
            case for case in json.loads(shardproof("list", "--json", "--profile", "core")) if case.get("on_request")
        ]
        self.assertEqual(whole["run"]["outside_profile"] + len(whole["cases"]) + len(on_request),
                         len(json.loads(shardproof("list", "--json"))))
        part = self.run_suite("part", "overlap/training_overlap", "--profile", "core")
        self.assertTrue(part["run"]["partial"])
        self.assertEqual(
            (self.default_report["profile"], self.default_report["run"]["partial"]), ("pytorch-compatible", False)
        )
        two = self.run_suite("two", "overlap/training_overlap", "--ranks", "2")
        self.assertEqual((two["profile"], two["run"]["partial"]), ("pytorch-compatible", True))
        difference = json.loads(shardproof("diff", self.out / "part", self.out / "whole", "--json"))
        self.assertEqual(difference["context"], ["partial run: true -> false"])

    def test_a_filter_outside_of_the_profile_is_refused(self):
        shardproof("run", "overlap/training_overlap[W=2]", "--profile", "core", "--out", self.out / "run", expect=2)

    def test_a_known_failure_is_waived_only_with_its_fault(self):
        file = self.out / "waivers.json"
        waiver = {"pattern": "*", "verdict": "failed", "when": {"fault": "one_stream"}, "reason": "nothing overlaps",
                  "link": "https://tracker.example/1", "owner": "ada", "expires": "2999-12-31"}
        file.write_text(json.dumps({"waivers": [waiver]}), encoding="utf-8")
        one = "overlap/training_overlap[W=2]"
        report = self.run_suite("waived", one, "--fault", "one_stream", "--waivers", file)
        self.assertEqual((report["summary"]["failed"], report["summary"]["waived"]), (1, 1))
        self.run_suite("other", one, "--fault", "gathered_released_early", "--waivers", file, expect=1)
        self.run_suite("unwaived", one, "--fault", "one_stream", expect=1)
        shardproof("diff", self.out / "unwaived", self.out / "waived", expect=1)
        shardproof("diff", self.out / "waived", self.out / "unwaived", expect=1)

    def test_a_fault_is_noticed_by_ranks_that_are_threads(self):
        processes = self.run_suite("processes", "overlap", "--ranks", "2", "--fault", "one_stream", expect=1)
        threads = self.run_suite(
            "threads", "overlap", "--ranks", "2", "--fault", "one_stream", "--fabric", "thread", expect=1
        )
        self.assertEqual(processes["summary"], threads["summary"])

    def test_a_fault_is_a_difference(self):
        self.run_suite("right", "overlap/training_overlap", "--ranks", "2")
        self.run_suite("broken", "overlap/training_overlap", "--ranks", "2", "--fault", "one_stream", expect=1)
        difference = json.loads(shardproof("diff", self.out / "right", self.out / "broken", "--json", expect=1))
        self.assertIn("new_failure", {change["change"] for change in difference["changes"]})

    def test_reports_follow_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads((ROOT / "reports/model/schema/report.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        # Checking a whole case is slow, and most cases are similar: one case of each name suffices.
        one_of_each = {case["id"].split("[")[0]: case for case in self.default_report["cases"]}
        self.assertGreater(len(one_of_each), 20)
        validator.validate(dict(self.default_report, cases=list(one_of_each.values())))
        broken = self.run_suite(
            "broken", "extensions", "--ranks", "2", "--fault", "gradients_summed", "--require", "OVL-1", expect=1
        )
        self.assertGreater(broken["summary"]["failed"], 0)
        validator.validate(broken)

    def test_a_trace_shows_compute_and_communication_overlap(self):
        self.run_suite("run", "overlap/training_overlap", "--ranks", "2", "--trace")
        trace = json.loads(
            (self.out / "run/worlds/0/traces/overlap.training_overlap[W=2].trace.json").read_text(encoding="utf-8")
        )
        events = trace["traceEvents"]
        tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        for rank in (0, 1):
            spans = {}
            for event in events:
                if event["ph"] == "X" and event["pid"] == rank:
                    spans.setdefault(tracks[rank, event["tid"]], []).append((event["ts"], event["ts"] + event["dur"]))
            compute, gathers = spans.pop("compute"), spans["all_gather"]
            self.assertTrue(
                any(
                    start < other_end and other_start < end
                    for start, end in compute
                    for other_start, other_end in gathers
                )
            )


class Schedulers(Runs):
    def test_ranks_that_are_threads_agree_with_processes_on_every_case(self):
        # If all ranks are threads, cases whose ranks are always threads share a world with the others. So this ignores
        # worlds.
        def stable(name):
            cases = json.loads(shardproof("stable", self.out / name))["cases"]
            for case in cases:
                del case["world"]
            return cases

        self.assertGreater(len(self.run_suite("processes")["cases"]), 700)
        expected = stable("processes")
        for name, arguments in (("seeded", ()), ("free", ("--scheduler", "free"))):
            with self.subTest(scheduler=name):
                self.run_suite(name, "--fabric", "thread", *arguments)
                self.assertEqual(stable(name), expected)

    def test_one_seed_is_one_interleaving_of_every_case(self):
        turns = {}
        for name, seed in (("first", "7"), ("second", "7"), ("other", "8")):
            self.run_suite(name, "overlap", "--ranks", "3", "--fabric", "thread", "--seed", seed)
            turns[name] = (self.out / name / "worlds/0/turns").read_text(encoding="utf-8")
        self.assertEqual(turns["first"], turns["second"])
        # Two seeds may agree in a few turns, so only a few lines may be equal.
        different = sum(a != b for a, b in zip(turns["first"].splitlines(), turns["other"].splitlines()))
        self.assertGreater(different, 0.9 * len(turns["first"].splitlines()))


if __name__ == "__main__":
    LAUNCHER, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
    NOTICED_BY = json.loads((ROOT / "tests/suites/noticed_by.json").read_text(encoding="utf-8"))
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
