#!/usr/bin/env python3
"""Measures the suites: which of the engines' mutants do they notice, and by which case?

    mutants_test.py LAUNCHER WORKER UNIT_TESTS CATALOGUE SURVIVORS [unittest arguments]

The suites' cases play every mutant of CATALOGUE that they reach, until a case does not pass. At two ranks, all cases
play it. At every other number of ranks, all random cases and one case of each other name play it. A mutant that no case
notices must be in SURVIVORS, with the reason why no case can notice it, or with the file of the unit test that notices
it. UNIT_TESTS, the engines' tests on the mutated engines, must notice the latter. One case of each name at two ranks
must not notice a mutant in SURVIVORS.

A mutant that is noticed is played again in two forms that hide it:
- late: it is active only from the second forward of a trainer on;
- combined: it is active only while a trainer has two traits of scenarios, such as `residuals` and `mixed_precision`.
A mutant that no case notices in such a form must be in a group of SURVIVORS with that "form".

The outcomes are printed as tables, and are in `outcomes.json` in the catalogue's folder. To play one mutant:
SHARDPROOF_MUTANT=ID shardproof run --worker WORKER, in its late form with SHARDPROOF_MUTANT_FROM=2, and in its combined
form with SHARDPROOF_MUTANT_TRAITS=2.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from player import BAD, WAIT_SECONDS, Player, name_of

# These cases notice most mutants, so they are played first.
SCOUTS = (
    "overlap/collective_counts",
    "overlap/no_race",
    "overlap/values_exact",
    "overlap/live_buffers",
    "extensions/under_a_policy",
    "extensions/precision_on_the_wire",
    "replicate/train_parity",
    "replicate/compile",
    "replicate/unused_parameters",
)
ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMS = {"always": {}, "late": {"SHARDPROOF_MUTANT_FROM": "2"}, "combined": {"SHARDPROOF_MUTANT_TRAITS": "2"}}


class MutantPlayer(Player):
    """Plays cases, and returns the first case that does not pass."""

    def play(self, cases, **environment):
        report = self.report(cases, **environment)
        return first_noticing(report) if report else None

    def reached(self, cases, form):
        """The mutants that any of the cases reaches while they can be active."""
        with tempfile.NamedTemporaryFile("r", dir=self.scratch) as file:
            noticed = self.play(cases, SHARDPROOF_MUTANTS_REACHED=file.name, **FORMS[form])
            if noticed:
                raise AssertionError(f"a case does not pass without a mutant: {noticed}")
            return set(file.read().split())


def first_noticing(report):
    for verdicts in (BAD, ("skipped",)):
        for case in report["cases"]:
            if case["verdict"] in verdicts:
                return {"verdict": case["verdict"], "case": case["id"], "clauses": case["clauses"]}
    raise AssertionError("a run did not pass, but each of its cases did")


def stages(cases):
    """The cases that are played together. The first few notice most mutants. All cases play only the other mutants."""
    at_two = [case for case in cases if case["world_size"] == 2]
    first = list({name_of(case): case for case in at_two}.values())
    names = {name_of(case) for case in first}
    # Each random case has its own scenario.
    others = {
        (name_of(case), case["world_size"], case["params"].get("seed")): case
        for case in cases
        if case["world_size"] != 2
    }.values()
    # These cases do not exist at two ranks.
    only_elsewhere = [case for case in others if name_of(case) not in names]
    elsewhere = [case for case in others if name_of(case) in names]
    scouts = [case for case in first if name_of(case) in SCOUTS]
    if len(scouts) != len(SCOUTS):
        raise AssertionError(f"not all of {SCOUTS} have a case at two ranks")
    return [
        scouts,
        [case for case in first if case not in scouts],
        only_elsewhere,
        [case for case in at_two if case not in first],
        elsewhere,
    ]


def outcome(player, mutant, form, parts, reached):
    noticed, started = None, time.monotonic()
    names = {name for name, mutants in reached.items() if mutant["id"] in mutants}
    for part in parts:
        cases = [case for case in part if name_of(case) in names]
        if cases and not noticed:
            noticed = player.play(cases, SHARDPROOF_MUTANT=mutant["id"], **FORMS[form])
    verdict = noticed or {"verdict": "survived"}
    return {**mutant, "form": form, "reached": bool(names), **verdict, "seconds": round(time.monotonic() - started, 3)}


def unit_test_passes(file, mutant):
    """Whether a unit test's file passes on a mutant, or on the unchanged engine if `mutant` is None. A test that waits
    forever does not pass."""
    environment = {**os.environ, **({"SHARDPROOF_MUTANT": mutant} if mutant else {})}
    try:
        return (
            subprocess.run(
                [
                    "/bin/sh",
                    "-c",
                    'ulimit -t 10; ulimit -c 0; exec "$@"',
                    "sh",
                    UNIT_TESTS,
                    "--filenames-as-tags",
                    f"[#{pathlib.PurePath(file).stem}]",
                    "--abort",
                ],
                env=environment,
                cwd=ROOT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=WAIT_SECONDS,
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


def text(mutant):
    return f"{mutant['file']} {mutant['function']}: `{mutant['original']}` -> `{mutant['mutated']}`"


def table(form, outcomes):
    kinds = sorted({mutant["kind"] for mutant in outcomes})
    columns = {
        "assertion": ("failed",),
        "error": ("error", "disagreed"),
        "crash": ("crashed", "hung"),
        "skip": ("skipped",),
        "survived": ("survived",),
    }
    counts = collections.Counter((mutant["kind"], column) for mutant in outcomes for column, verdicts in columns.items()
                                 if mutant["verdict"] in verdicts)
    lines = [f"{'mutants, ' + form:20}" + "".join(f"{column:>11}" for column in (*columns, "of"))]
    for kind in (*kinds, "all"):
        row = [sum(counts[k, column] for k in kinds if kind in (k, "all")) for column in columns]
        lines.append(f"{kind.replace('_', ' '):20}" + "".join(f"{count:>11}" for count in (*row, sum(row))))
    return "\n".join(lines)


class Mutants(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        mutants = json.loads(CATALOGUE.read_text(encoding="utf-8"))["mutants"]
        cls.groups = json.loads(SURVIVORS.read_text(encoding="utf-8"))
        cls.declared = {form: {name: change for group in cls.groups if group.get("form", "always") == form
                               for name, change in group["mutants"].items()} for form in FORMS}
        left_to_unit_tests = [
            (group["noticed_by"], name) for group in cls.groups if "noticed_by" in group for name in group["mutants"]
        ]
        memory = pathlib.Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as scratch:
            player = MutantPlayer(LAUNCHER, WORKER, scratch)
            parts = stages(player.listing["cases"])
            by_name = collections.defaultdict(list)
            for case in player.listing["cases"]:
                by_name[name_of(case)].append(case)

            def play_all(pool, form, mutants):
                reached = dict(zip(by_name, pool.map(lambda cases: player.reached(cases, form), by_name.values())))
                declared = cls.declared[form]
                return list(
                    pool.map(
                        lambda mutant: outcome(
                            player, mutant, form, parts[:2] if mutant["id"] in declared else parts, reached
                        ),
                        mutants,
                    )
                )

            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                # These come first: a test that waits forever then waits at the same time as the others run.
                passed = pool.map(
                    lambda entry: (*entry, unit_test_passes(*entry)),
                    [*((file, None) for file in sorted({file for file, _ in left_to_unit_tests})), *left_to_unit_tests],
                )
                cls.outcomes = {"always": play_all(pool, "always", mutants)}
                noticed = {each["id"] for each in cls.outcomes["always"] if each["verdict"] != "survived"}
                hidden = [mutant for mutant in mutants if mutant["id"] in noticed]
                for form in ("late", "combined"):
                    cls.outcomes[form] = play_all(pool, form, hidden)
                cls.unit_tests = list(passed)
        all_outcomes = [each for form in FORMS for each in cls.outcomes[form]]
        CATALOGUE.with_name("outcomes.json").write_text(json.dumps(all_outcomes, indent=1) + "\n", encoding="utf-8")
        elsewhere = sum(len(group["mutants"]) for group in cls.groups if "noticed_by" in group)
        print("\n".join(table(form, outcomes) for form, outcomes in cls.outcomes.items()), file=sys.stderr)
        print(
            f"a unit test notices {elsewhere} of {sum(map(len, cls.declared.values()))} declared survivors, "
            "and no test can notice the others",
            file=sys.stderr,
        )

    def test_there_are_mutants_of_every_kind(self):
        counts = collections.Counter(mutant["kind"] for mutant in self.outcomes["always"])
        self.assertEqual(
            set(counts),
            {"operator", "literal", "negated_condition", "deleted_guard", "deleted_call", "deleted_assignment"},
        )
        self.assertGreater(min(counts.values()), 5, counts)

    def test_every_survivor_is_declared_equivalent(self):
        for form, outcomes in self.outcomes.items():
            with self.subTest(form=form):
                # The late form of a mutant is not active if no case reaches it that late.
                lines = [
                    f'  "{mutant["id"]}": {json.dumps(text(mutant))},  line {mutant["line"]}'
                    + ("" if mutant["reached"] else ", never reached")
                    for mutant in outcomes
                    if mutant["verdict"] == "survived"
                    and mutant["id"] not in self.declared[form]
                    and (form == "always" or mutant["reached"])
                ]
                if lines:
                    self.fail(f"no case notices {len(lines)} mutants:\n" + "\n".join(lines))

    def test_every_declared_mutant_survives(self):
        for form, outcomes in self.outcomes.items():
            by_id = {mutant["id"]: mutant for mutant in outcomes}
            for name, change in self.declared[form].items():
                with self.subTest(form=form, mutant=name, change=change):
                    self.assertTrue(name in by_id, "this mutant does not exist any more")
                    self.assertEqual(change, text(by_id[name]))
                    self.assertEqual(by_id[name]["verdict"], "survived", by_id[name])

    def test_the_declared_unit_tests_notice_their_mutants(self):
        for file, mutant, passed in self.unit_tests:
            with self.subTest(file=file, mutant=mutant):
                self.assertEqual(passed, mutant is None)

    def test_every_declaration_is_unique_and_has_a_reason(self):
        self.assertEqual(sum(len(group["mutants"]) for group in self.groups), sum(map(len, self.declared.values())))
        for group in self.groups:
            self.assertIn(group.get("form", "always"), FORMS)
            self.assertTrue(group["mutants"])
            self.assertGreater(len(group["reason"]), 20, group)
            if "noticed_by" in group:
                self.assertTrue((ROOT / group["noticed_by"]).is_file(), group["noticed_by"])


if __name__ == "__main__":
    LAUNCHER, WORKER = sys.argv[1:3]
    UNIT_TESTS = pathlib.Path(sys.argv[3]).resolve()  # it runs in the folder of its sources
    CATALOGUE, SURVIVORS = map(pathlib.Path, sys.argv[4:6])
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
