#!/usr/bin/env python3
"""Checks that docs/seeds.md names each seed test, and only cases and clauses that exist. A row names cases by patterns
of ids. In a pattern, `key=…` matches any value, and `…` alone matches any further parameters.

    seeds_test.py LAUNCHER ROOT
"""
import json
import pathlib
import re
import subprocess
import sys

CASE = re.compile(r"`([a-z_]+/\w+)\[([^`]*)\]`")
CLAUSE = re.compile(r"\b([A-Z]{3}-\d+)\b( \(reference\))?")
NONE = "–"  # the cells of a row without a counterpart


def listed(launcher, *options):
    result = subprocess.run(
        [launcher, "list", "--json", *options], capture_output=True, text=True, check=True, timeout=300
    )
    return json.loads(result.stdout)


def seed_tests(seeds):
    """The cases of each seed test, by file and test, from `list --seeds`. Omits the parameters of seed tests."""
    files = {}
    for seed in seeds:
        file, test = re.fullmatch(r"([\w.]+)::(\w+)(?:\[.*\])?", seed["seed"]).groups()
        files.setdefault(file, {}).setdefault(test, set()).update(seed["cases"])
    return files


def matching(name, pattern, cases):
    """The ids that match a pattern."""
    items = pattern.split(",")
    values = dict(item.split("=", 1) for item in items if item != "…")
    return {case["id"] for case in cases if case["id"].startswith(f"{name}[")
            and all(key in case["params"] and value in ("…", case["params"][key]) for key, value in values.items())
            and ("…" in items or set(case["params"]) == set(values))}


def names_failures(page, cases, clauses):
    """Yields each case pattern and each clause of the page that does not exist."""
    for name, pattern in dict.fromkeys(CASE.findall(page)):
        if not matching(name, pattern, cases):
            yield f"no case has this pattern: {name}[{pattern}]"
    for clause, reference in dict.fromkeys(CLAUSE.findall(page)):
        if clause not in clauses:
            yield f"no such clause: {clause}"
        elif clauses[clause]["required"] == bool(reference):
            yield f"\"(reference)\" belongs after reference clauses, and after no other clause: {clause}"


def row_failures(place, row, cases):
    """Yields the mistakes of a row about its cases and clauses."""
    case_cell, clause_cell, stricter = row
    if not stricter:
        yield f"{place}: the last cell is empty"
    if NONE in (case_cell, clause_cell):
        if case_cell != clause_cell:
            yield f"{place}: a row has cases and clauses, or neither"
        return
    checks = {case["id"]: set(case["clauses"]) for case in cases}
    matched = set().union(*(matching(name, pattern, cases) for name, pattern in CASE.findall(case_cell)))
    named = {clause for clause, _ in CLAUSE.findall(clause_cell)}
    if not named or not matched:
        yield f"{place}: cases or clauses are missing"
        return
    for clause in sorted(named - set().union(*(checks[case] for case in matched))):
        yield f"{place}: no case of the row checks {clause}"
    for case in sorted(case for case in matched if not checks[case] & named):
        yield f"{place}: {case} checks no clause of the row"


def file_failures(file, section, tests, cases):
    """Yields the mistakes in the table of one seed file."""
    on_page = {}
    for line in re.findall(r"^\| `.*", section, re.M):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) != 4 or ":" not in cells[0]:
            yield f"{file}: expected `test`: assertion | cases | clauses | stricter by, found: {line}"
            continue
        for test in re.findall(r"`(\w+)`", cells[0].split(":")[0]):
            covered = on_page.setdefault(test, set())
            for name, pattern in CASE.findall(cells[1]):
                covered |= matching(name, pattern, cases)
        yield from row_failures(f"{file}, {cells[0]}", cells[1:], cases)
    for test in sorted(set(tests) - set(on_page)):
        yield f"not on the page: {file}::{test}"
    for test in sorted(set(on_page) - set(tests)):
        yield f"on the page, but no case names this seed test: {file}::{test}"
    for test, covered in on_page.items():
        for case in sorted(tests.get(test, set()) - covered):
            yield f"{file}::{test}: no row has the case {case}"


def main(launcher, root):
    page = (root / "docs/seeds.md").read_text(encoding="utf-8")
    cases = listed(launcher)
    clauses = {clause["id"]: clause for clause in listed(launcher, "--clauses")}
    files = seed_tests(listed(launcher, "--seeds"))
    sections = dict(re.findall(r"^## (test_\w+\.py)\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    failures = list(names_failures(page, cases, clauses))
    failures += [f"no section: {file}" for file in sorted(set(files) - set(sections))]
    for file, section in sections.items():
        failures += file_failures(file, section, files.get(file, {}), cases)
    for failure in failures:
        print("FAIL", failure)
    print(f"{len(sections)} seed files, {sum(len(tests) for tests in files.values())} seed tests")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]).resolve()))
