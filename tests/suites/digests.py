#!/usr/bin/env python3
"""The stable part of a report, short enough to keep: everything but the cases, and a digest of each case.

    shardproof stable RUN | tests/suites/digests.py > tests/suites/default_digests.json

Digests omit lines of source files, because compilers number the lines of a macro with several lines differently.
"""
import hashlib
import json
import sys


def digests(report):
    cases = {}
    for case in report["cases"]:
        text = json.dumps({key: value for key, value in case.items() if key != "line"}, sort_keys=True)
        cases[case["id"]] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {**report, "cases": cases}


if __name__ == "__main__":
    json.dump(digests(json.load(sys.stdin)), sys.stdout, indent=1)
    print()
