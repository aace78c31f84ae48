#!/usr/bin/env python3
"""Prints the results of ./gpu-check as a page for docs/evidence/.

    gpu_evidence.py RESULTS.tar.gz…

Several files are parts of one check: steps that were run again, or on another day. The page shows all of them.
Exit codes: 0 the page is complete, 2 a file has no results.
"""
import collections
import datetime
import json
import pathlib
import re
import sys
import tarfile

STEP = re.compile(r"\| (?P<name>\w+) \| (?P<result>passed|failed|skipped) \| (?P<seconds>\d+) \| (?P<what>.*) \|")
TIMED_CASE = "overlap/interleaved_timings[W=1]"
MEMBER_LIMIT = 64 << 20


class NoResults(Exception):
    pass


class Results:
    """The content of one archive. Only regular files of its one folder are read."""

    def __init__(self, path):
        self.name = pathlib.Path(path).name
        self.texts = {}
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    wanted = member.isfile() and member.size <= MEMBER_LIMIT and "/worlds/" not in member.name
                    if wanted and "/" in member.name:
                        content = archive.extractfile(member).read()
                        self.texts[member.name.split("/", 1)[1]] = content.decode("utf-8", "replace")
        except (OSError, tarfile.TarError, EOFError) as error:
            raise NoResults(f"{path}: {error}; expected an archive that ./gpu-check wrote") from error
        if "steps.md" not in self.texts or "machine.txt" not in self.texts:
            raise NoResults(f"{path}: it has no steps.md or no machine.txt; expected an archive that ./gpu-check wrote")
        self.steps = [match.groupdict() for match in STEP.finditer(self.texts["steps.md"])]
        try:
            self.versions = json.loads(self.texts.get("versions.json", "{}"))
            self.limits = json.loads(self.texts.get("logs/limits.log") or "{}") if self.ran("limits") else {}
            self.reports = {
                step["name"]: json.loads(self.texts[f"runs/{step['name']}/report.json"])
                for step in self.steps
                if f"runs/{step['name']}/report.json" in self.texts
            }
        except json.JSONDecodeError as error:
            raise NoResults(f"{path}: a JSON file in it is damaged: {error}") from error

    def ran(self, step):
        return any(one["name"] == step and one["result"] == "passed" for one in self.steps)

    def machine(self, pattern, otherwise="unknown"):
        found = re.search(pattern, self.texts["machine.txt"], re.M)
        return found[1].strip() if found else otherwise

    def date(self):
        stamp = self.machine(r"^Timestamp *: (.*)$")
        try:
            return datetime.datetime.strptime(stamp, "%a %b %d %H:%M:%S %Y").date().isoformat()
        except ValueError:
            return stamp

    def cases(self):
        for step, report in self.reports.items():
            for case in report["cases"]:
                yield step, case


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def table(head, rows):
    return "\n".join(f"| {' | '.join(cell(str(one)) for one in row)} |" for row in [head, ["---"] * len(head), *rows])


def nccl_version(number):
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else "unknown"


def cuda_version(number):
    return f"{number // 1000}.{number % 1000 // 10}" if number else "unknown"


def gpus_of(results):
    names = re.findall(r"^GPU \d+: (.*?) \(UUID", results.texts["machine.txt"], re.M)
    return ", ".join(f"{count} × {name}" for name, count in collections.Counter(names).items()) or "unknown"


def origin_table(all_results):
    return table(
        ["part", "commit", "GPUs", "system", "driver", "CUDA of driver, of build", "NCCL", "date"],
        [
            [
                number,
                f"`{results.machine(r'^commit: (.{1,12})')}`",
                gpus_of(results),
                results.machine(r"^(Linux .*)$") + ", glibc " + results.machine(r"^ldd .* (\S+)$"),
                results.machine(r"^Driver Version *: (.*)$"),
                f"{cuda_version(results.versions.get('driver'))}, {cuda_version(results.versions.get('runtime'))}",
                nccl_version(results.versions.get("nccl")),
                results.date(),
            ]
            for number, results in enumerate(all_results, 1)
        ],
    )


def steps_table(all_results):
    return table(
        ["step", "part", "result", "seconds", "what"],
        [
            [step["name"], number, step["result"], step["seconds"], step["what"]]
            for number, results in enumerate(all_results, 1)
            for step in results.steps
        ],
    )


def verdict_lists(all_results):
    """The cases that neither passed nor were skipped, and the reasons of the skipped."""
    bad, reasons = [], collections.Counter()
    for number, results in enumerate(all_results, 1):
        for step, case in results.cases():
            if case["verdict"] == "skipped":
                texts = [rank["reason"] for rank in case["ranks"] if rank.get("reason")]
                reasons[texts[0] if texts else "no reason was given"] += 1
            elif case["verdict"] != "passed":
                bad.append([f"`{case['id']}`", step, number, case["verdict"]])
    failed = (
        table(["case", "step", "part", "verdict"], bad) if bad else "No case failed in the steps that left a report."
    )
    skipped = table(["reason", "cases"], reasons.most_common()) if reasons else "No case was skipped."
    return failed, skipped


def timed(case):
    def milliseconds(name):
        measured = case["measurements"].get(name)
        return "" if measured is None else f"{measured['value'] / 1000:.3f} ms"

    rows = []
    for phase, title in (("forward", "forward"), ("forward_backward", "forward and backward")):
        margin = case["measurements"].get(f"{phase}_margin")
        rows.append([
            title,
            milliseconds(f"expected_{phase}_us"),
            milliseconds(f"measured_{phase}_us"),
            "" if margin is None else f"{margin['value']:.4f}",
            milliseconds(f"measured_serial_{phase}_us"),
        ])
    return table(["", "expected", "measured", "measured / expected", "serial form, measured"], rows)


def times(all_results):
    texts, proven, asked, errors, beyond = [], 0, 0, [], []
    for results in all_results:
        for _, case in results.cases():
            measured = case["measurements"]
            if case["id"] == TIMED_CASE and case["verdict"] == "passed":
                texts.append(f"`{TIMED_CASE}` plays three layers with work of the same cost in place of communication. "
                             "The expected time\nfollows from the recorded order if each piece takes its shortest time "
                             f"alone.\n\n{timed(case)}")
            if "proven_by_gate" in measured:
                asked += 1
                proven += measured["proven_by_gate"]["value"] == 1
            if "alignment_error_us" in measured:
                errors.append(measured["alignment_error_us"]["value"])
                beyond.append(measured["beyond_events_us"]["value"])
    if asked:
        texts.append(f"A gate proved {proven} of {asked} cases on what can run before what.")
    if errors:
        texts.append(f"Times of CUPTI: the clocks were aligned to within {max(errors):.2f} µs. "
                     f"No piece went beyond its events by more than {max(beyond):.2f} µs.")
    return "\n\n".join(texts) or "No step with times left a report."


def limits(all_results):
    rows = []

    def walk(node, path):
        if {"median", "p10", "p90", "unit"} <= node.keys():
            rows.append([" / ".join(path), *(f"{node[key]:.0f} {node['unit']}" for key in ("median", "p10", "p90"))])
            return
        for key, inner in node.items():
            if isinstance(inner, dict):
                walk(inner, [*path, key.replace("_", " ")])

    for results in all_results:
        walk(results.limits, [])
    head = ["what", "median", "a tenth is below", "a tenth is above"]
    return table(head, rows) if rows else "Step limits has not run."


def page(all_results):
    failed, skipped = verdict_lists(all_results)
    first, plural = all_results[0], "s" * (len(all_results) > 1)
    return f"""# {gpus_of(first)}, {first.date()}

`./gpu-check --read` made this page from {len(all_results)} archive{plural} of results
([how to repeat it](../gpu.md#gpu-check)).
Ranks of the steps `…_2_ranks` share one GPU, so their times mean nothing.

{origin_table(all_results)}

## Steps

{steps_table(all_results)}

## Failed cases

{failed}

## Skipped cases

{skipped}

## Times

{times(all_results)}

## Limits of the GPU

{limits(all_results)}
"""


def main(paths):
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(page([Results(path) for path in paths]), end="")
    except NoResults as error:
        print(f"shardproof: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
