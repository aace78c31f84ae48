"""Checks that reports or statements follow their schema, and that the schema refuses every spoiled document.

usage: check_schema.py SCHEMA PRINT_SAMPLE_REPORTS

SCHEMA is report.schema.json or statement.schema.json.
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


# The member with the version of each kind of document, and the least number of spoiled documents to try.
KINDS = {"report": ("schema_version", 500), "statement": ("statement_version", 80)}

# Maps with free names: an additional or missing name is valid.
FREE = {"environment", "machine", "params", "measurements"}


def is_optional(place):
    if place[-1] in (
        "attempt",
        "clock_now_khz",
        "environment",
        "explanation",
        "gpus",
        "hosts",
        "interfaces",
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


def spoiled(document, version):
    """Yields a description of the change and the changed document, which the schema must refuse."""
    for place in places(document):
        value = at(document, place)
        other = copy.deepcopy(document)
        at(other, place[:-1])[place[-1]] = 7.5 if isinstance(value, list) else []
        yield f"{place}: another type", other
        if isinstance(place[-1], str) and not (version == "schema_version" and is_optional(place)):
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
        if place[-1] in ("verdict", "outcome", "how", "state", "status"):
            other = copy.deepcopy(document)
            at(other, place[:-1])[place[-1]] = value.upper()
            yield f"{place}: another word", other
    other = copy.deepcopy(document)
    other["new_field"] = 1
    yield "a new field at the top", other
    other = copy.deepcopy(document)
    other[version] = 2
    yield "another version", other


def main():
    file = pathlib.Path(sys.argv[1])
    kind = file.name.split(".")[0]
    version, least = KINDS[kind]
    schema = json.loads(file.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.argv[2], directory], check=True)
        documents = {file.name: json.loads(file.read_text()) for file in (pathlib.Path(directory) / kind).iterdir()}
    assert set(documents) == {"rich.json", "empty.json"}, documents.keys()

    complaints = []
    for name, document in documents.items():
        complaints += [f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    refused = 0
    for what, document in spoiled(documents["rich.json"], version):
        refused += 1
        if validator.is_valid(document):
            complaints.append(f"the schema accepts a spoiled document: {what}")
    if refused < least:
        complaints.append(f"only {refused} spoiled documents were tried")
    print("\n".join(complaints) or f"{len(documents)} documents are valid, {refused} spoiled ones are not")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
