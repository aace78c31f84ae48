"""Checks exported reports with the parsers of Python's library, and against the rules of their formats.

    exports_test.py PRINT_SAMPLE_EXPORTS

JUNIT and CTRF below are the rules, in our own words: which elements, attributes and fields the formats have. Those of
JUnit XML are from the schema of Jenkins' xUnit plugin (junit-10.xsd). Those of CTRF are from ctrf.io's specification
1.0.0, for the fields that the exporter writes.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import jsonschema

# For each element: its required attributes, its other attributes, its children, and whether it has text.
Rule = collections.namedtuple("Rule", "required optional children text")
ATTEMPT = Rule({"type"}, {"message"}, {"stackTrace", "system-out", "system-err"}, True)
REASON = Rule(set(), {"type", "message"}, set(), True)
TEXT = Rule(set(), set(), set(), True)
JUNIT = {
    "testsuites": Rule(set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}, False),
    "testsuite": Rule(
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
        False,
    ),
    "properties": Rule(set(), set(), {"property"}, False),
    "property": Rule({"name", "value"}, set(), set(), False),
    "testcase": Rule(
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"}
        | {"rerunFailure", "rerunError", "flakyFailure", "flakyError"},
        False,
    ),
    "skipped": REASON,
    "error": REASON,
    "failure": REASON,
    "rerunFailure": ATTEMPT,
    "rerunError": ATTEMPT,
    "flakyFailure": ATTEMPT,
    "flakyError": ATTEMPT,
    "stackTrace": TEXT,
    "system-out": TEXT,
    "system-err": TEXT,
}
TIME = re.compile(r"\d+(\.\d+)?")
SUM_OF_TIMES = re.compile(r"\d+(\.\d{0,3})?")

STATUS = {"enum": ["passed", "failed", "skipped", "pending", "other"]}
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
STRINGS = {"type": "array", "items": STRING}


def closed(required, **properties):
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


CTRF = closed(
    ["reportFormat", "specVersion", "results"],
    reportFormat={"const": "CTRF"},
    specVersion={"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
    generatedBy=STRING,
    results=closed(
        ["tool", "summary", "tests"],
        tool=closed(["name"], name={"type": "string", "minLength": 1}),
        summary=closed(
            ["tests", "passed", "failed", "skipped", "pending", "other", "start", "stop"],
            **{
                name: INTEGER
                for name in "tests passed failed skipped pending other flaky suites start stop duration".split()
            },
        ),
        tests={
            "type": "array",
            "items": closed(
                ["name", "status", "duration"],
                name={"type": "string", "minLength": 1},
                status=STATUS,
                duration=INTEGER,
                suite={**STRINGS, "minItems": 1},
                message=STRING,
                trace=STRING,
                line=INTEGER,
                rawStatus=STRING,
                tags=STRINGS,
                filePath=STRING,
                retries=INTEGER,
                flaky={"type": "boolean"},
                parameters={"type": "object"},
                retryAttempts={
                    "type": "array",
                    "items": closed(
                        ["attempt", "status"],
                        attempt={"type": "integer", "minimum": 1},
                        status=STATUS,
                        duration=INTEGER,
                        message=STRING,
                        trace=STRING,
                    ),
                },
                extra={"type": "object"},
            ),
        },
        environment=closed([], commit=STRING, extra={"type": "object"}),
    ),
)


def expected_counts(report):
    """The number of cases that count, by their meaning for other programs."""
    counts = collections.Counter(tests=0, passed=0, skipped=0, failed=0, error=0)
    for case in report["cases"]:
        if case.get("superseded"):
            continue
        is_excused = case["waived"] or case["verdict"] == "skipped"
        counts["tests"] += 1
        verdict = case["verdict"] if case["verdict"] in ("passed", "failed") else "error"
        counts["skipped" if is_excused else verdict] += 1
    return counts


def junit_complaints(root, report):
    yield from (
        f"{element.tag}: {what}"
        for element in root.iter()
        for what in rule_complaints(element, JUNIT.get(element.tag))
    )
    for suite in root.iter("testsuite"):
        cases = suite.findall("testcase")
        counts = {"tests": len(cases)}
        for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            counts[name] = len(suite.findall(f"testcase/{kind}"))
        if said := {name: int(suite.get(name)) for name in counts if int(suite.get(name)) != counts[name]}:
            yield f"suite {suite.get('name')} says {said}, but has {counts}"
    own = [case for case in root.iter("testcase") if case.get("classname") != "shardproof run"]
    kinds = collections.Counter(
        next((child.tag for child in case if child.tag in ("skipped", "failure", "error")), "passed") for case in own
    )
    counts = expected_counts(report)
    if [kinds[kind] for kind in ("passed", "skipped", "failure", "error")] != [
        counts[kind] for kind in ("passed", "skipped", "failed", "error")
    ]:
        yield f"{dict(kinds)}, but the report has {dict(counts)}"


def rule_complaints(element, rule):
    if rule is None:
        yield "no such element"
        return
    given = set(element.keys())
    if missing := rule.required - given:
        yield f"misses {missing}"
    if unknown := given - rule.required - rule.optional:
        yield f"has {unknown}"
    if unknown := {child.tag for child in element} - rule.children:
        yield f"contains {unknown}"
    if not rule.text and (element.text or "").strip():
        yield "contains text"
    form = TIME if element.tag == "testcase" else SUM_OF_TIMES
    if "time" in given and not form.fullmatch(element.get("time")):
        yield f"time {element.get('time')}"


def ctrf_complaints(document, report):
    validator = jsonschema.Draft202012Validator(CTRF)
    yield from (f"{error.json_path}: {error.message}" for error in validator.iter_errors(document))
    results = document["results"]
    summary, tests = results["summary"], results["tests"]
    statuses = collections.Counter(test["status"] for test in tests)
    for status in STATUS["enum"]:
        if summary[status] != statuses[status]:
            yield f"{summary[status]} {status}, but there are {statuses[status]}"
    counts = expected_counts(report)
    own = collections.Counter(test["status"] for test in tests if test["suite"] != ["shardproof run"])
    if [own["passed"], own["skipped"], own["failed"]] != [
        counts["passed"],
        counts["skipped"],
        counts["failed"] + counts["error"],
    ]:
        yield f"{dict(own)}, but the report has {dict(counts)}"


def refused_spoilt(root, document, report):
    """Whether these checks notice what is wrong: they must not agree to everything."""
    case = next(root.iter("testcase"))
    case.set("line", "7")
    xml.etree.ElementTree.SubElement(case, "properties")
    spoilt = list(junit_complaints(root, report))
    document["results"]["tests"][0].update(status="ok", duration=1.5)
    document["results"]["summary"]["passed"] += 1
    return len(spoilt) >= 2 and len(list(ctrf_complaints(document, report))) >= 3


def main(program):
    complaints, read = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([program, scratch], check=True)
        for folder in sorted(pathlib.Path(scratch).iterdir()):
            report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
            try:
                root = xml.etree.ElementTree.parse(folder / "junit.xml").getroot()
                document = json.loads((folder / "ctrf.json").read_text(encoding="utf-8"))
            except (xml.etree.ElementTree.ParseError, json.JSONDecodeError, UnicodeDecodeError) as error:
                complaints.append(f"{folder.name}: {error}")
                continue
            complaints += [f"{folder.name}/junit.xml: {what}" for what in junit_complaints(root, report)]
            complaints += [f"{folder.name}/ctrf.json: {what}" for what in ctrf_complaints(document, report)]
            if folder.name == "sample" and not refused_spoilt(root, document, report):
                complaints.append("spoilt exports pass the checks")
            read += 1
    print("\n".join(complaints) or f"{read} reports")
    return 1 if complaints or read < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
