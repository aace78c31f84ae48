#!/usr/bin/env python3
"""Checks that the suites notice each defect of hand_made.json under the clauses that it breaks.

    hand_made_test.py LAUNCHER WORKER DEFECTS [unittest arguments]

For each clause of a defect, some case must fail on the defect and name the clause. Without the defect all cases pass.

To play one defect: SHARDPROOF_MUTANT=ID shardproof run --worker WORKER. The test prints the ids. A defect with "from":
N is active from the Nth forward of a trainer on: SHARDPROOF_MUTANT_FROM=N.
"""
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile
import unittest

from hand_made import identifier
from player import BAD, Player


def broken(case):
    """The clauses that the failures of a case name."""
    return {clause for failure in case["failures"] for clause in failure["clauses"]}


class HandMade(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.defects = json.loads(DEFECTS.read_text(encoding="utf-8"))
        memory = pathlib.Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as scratch:
            player = Player(LAUNCHER, WORKER, scratch)

            def citing(clauses):
                return [case for case in player.listing["cases"] if clauses.intersection(case["clauses"])]

            cls.unchanged = player.report(citing({clause for defect in cls.defects for clause in defect["clauses"]}))

            def play(defect):
                cases = citing(set(defect["clauses"]))
                environment = {
                    "SHARDPROOF_MUTANT": identifier(defect["name"]),
                    "SHARDPROOF_MUTANT_FROM": str(defect.get("from", 0)),
                }
                report = player.report(cases, **environment) if cases else None
                return [case for case in report["cases"] if case["verdict"] in BAD] if report else []

            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                cls.failed = dict(zip((defect["name"] for defect in cls.defects), pool.map(play, cls.defects)))
        for defect in cls.defects:
            failed = cls.failed[defect["name"]]
            print(
                f"{identifier(defect['name'])} {defect['name']}: {len(failed)} cases, "
                f"{failed[0]['id'] if failed else 'none'}",
                file=sys.stderr,
            )

    def test_without_a_defect_all_pass(self):
        self.assertIsNone(self.unchanged)

    def test_each_defect_is_noticed_under_its_clauses(self):
        for defect in self.defects:
            for clause in defect["clauses"]:
                with self.subTest(defect=defect["name"], clause=clause):
                    self.assertTrue(any(clause in broken(case) for case in self.failed[defect["name"]]))

    def test_names_and_identifiers_are_unique(self):
        names = [defect["name"] for defect in self.defects]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual(len(set(map(identifier, names))), len(names))


if __name__ == "__main__":
    LAUNCHER, WORKER = sys.argv[1:3]
    DEFECTS = pathlib.Path(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
