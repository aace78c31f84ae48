"""Checks that reports follow the schema, and that the schema refuses every spoiled report.

usage: check_schema.py SCHEMA PRINT_SAMPLE_REPORTS
"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema


def places(value, place=()):
    """Every place in a document, except the document itself."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield place + (key,)
        yield from places(child, place + (key,))


def at(document, place):
    for key in place:
        document = document[key]
    return document


# Maps with free names: an additional or missing name is valid.
FREE = {"environment", "machine", "params", "measurements"}


def is_optional(place):
    if place[-1] in (
        "attempt",
        "clock_now_khz",
        "environment",
        "explanation",
        "gpus",
        "is_cause",
        "memory_clock_now_khz",
        "native_atomics",
        "nccl",
        "numa_node",
        "number",
        "nvlink",
        "pci",
        "pci_path",
        "peers",
        "performance_rank",
        "shown_by",
        "skipped_by",
        "slowed_by",
        "superseded",
        "times",
        "unclaimed",
        "unfit_for_timing",
        "unknown_in_waivers",
        "unknown_kinds",
        "waiver",
        "warnings",
    ) and place != ("run", "environment"):
        return True
    if len(place) > 1 and (place[-2] == "when" or place[-2:] in (("shown_by", "ranks"), ("shown_by", "beside"))):
        return True
    if len(place) > 2 and place[-3] == "environment":  # a rank's environment
        return True
    return (len(place) > 1 and place[-2] in FREE) or place[-1] == "reason" and place[-3] == "ranks"


def spoiled(document):
    """Yields a description of the change and the changed document, which the schema must refuse."""
    for place in places(document):
        value = at(document, place)
        other = copy.deepcopy(document)
        at(other, place[:-1])[place[-1]] = 7.5 if isinstance(value, list) else []
        yield f"{place}: another type", other
        if isinstance(place[-1], str) and not is_optional(place):
            other = copy.deepcopy(document)
            del at(other, place[:-1])[place[-1]]
            yield f"{place}: left out", other
        if isinstance(value, dict) and place[-1] not in FREE and place[-2:-1] != ("environment",):
            other = copy.deepcopy(document)
            at(other, place)["new_field"] = 1
            yield f"{place}: a new field", other
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and place[-1] not in ("code", "value", "monotonic_ns")
        ):
            other = copy.deepcopy(document)
            at(other, place[:-1])[place[-1]] = -2
            yield f"{place}: negative", other
        if place[-1] in ("verdict", "outcome", "how", "state"):
            other = copy.deepcopy(document)
            at(other, place[:-1])[place[-1]] = value.upper()
            yield f"{place}: another word", other
    other = copy.deepcopy(document)
    other["new_field"] = 1
    yield "a new field at the top", other
    other = copy.deepcopy(document)
    other["schema_version"] = 2
    yield "another schema version", other


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.argv[2], directory], check=True)
        reports = {file.name: json.loads(file.read_text()) for file in pathlib.Path(directory).iterdir()}
    assert set(reports) == {"rich.json", "empty.json"}, reports.keys()

    complaints = []
    for name, report in reports.items():
        complaints += [f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(report)]
    refused = 0
    for what, document in spoiled(reports["rich.json"]):
        refused += 1
        if validator.is_valid(document):
            complaints.append(f"the schema accepts a spoiled report: {what}")
    if refused < 500:
        complaints.append(f"only {refused} spoiled reports were tried")
    print("\n".join(complaints) or f"{len(reports)} reports are valid, {refused} spoiled ones are not")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
