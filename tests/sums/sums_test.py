#!/usr/bin/env python3
"""Checks that the suites pass for each order in which an engine's kernels add, with and without fused multiply-add.

    sums_test.py LAUNCHER WORKER SCENARIO SEEDS ORDER...

WORKER is the worker of all suites, with kernels that add in the order that SHARDPROOF_SUMS names. A case that asks for
equal values must have values that no order changes. Generated cases play SEEDS seeds. SCENARIO has values that each
order changes, so that this test proves something.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

USUAL = "ascending"


def shardproof(order, *arguments):
    return subprocess.run(
        [LAUNCHER, *map(str, arguments), "--worker", WORKER],
        env={**os.environ, "SHARDPROOF_SUMS": order},
        capture_output=True,
        text=True,
        timeout=600,
    )


class Sums(unittest.TestCase):
    def captured(self, order):
        result = shardproof(order, "play", SCENARIO, "--json")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [rank["iterations"] for rank in json.loads(result.stdout)["ranks"]]

    def test_each_order_changes_sums_that_round(self):
        made = {order: json.dumps(self.captured(order)) for order in {USUAL, *ORDERS}}
        self.assertEqual(len(set(made.values())), len(made))

    def test_each_case_passes_in_each_order(self):
        for order in ORDERS:
            with self.subTest(order=order), tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "out"
                # More seeds, because the serial model decides for each random scenario whether its values depend on the
                # order.
                result = shardproof(order, "run", "--generated", SEEDS, "--quiet", "--max-skips", 0, "--out", out)
                self.assertEqual(result.returncode, 0, result.stdout[-4000:] + result.stderr)
                self.assertGreater(
                    json.loads((out / "report.json").read_text(encoding="utf-8"))["summary"]["passed"], 4000
                )


if __name__ == "__main__":
    LAUNCHER, WORKER, SCENARIO, SEEDS, *ORDERS = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
