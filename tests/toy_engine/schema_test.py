"""Checks that the toy kind's schema and its reader accept the same plans. The schema of whole documents is the shipped
schema, to which this test adds the kind in memory.

    schema_test.py PROGRAM ROOT"""

import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

SECTIONS = [
    {},
    {"bucket": "gradients"},
    {"bucket": ""},
    {"bucket": 1},
    {"bucket": None},
    {"bucket": ["x"]},
    {"bukket": "x"},
    [],
    "toy",
    None,
]


def validator_of(root):
    """The validator of whole documents."""
    shipped, own = root / "harness/scenario/schema", root / "tests/toy_engine/toy.schema.json"
    toy = json.loads(own.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(toy)
    path = shipped / "scenario.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    plan = schema["$defs"]["plan"] if "plan" in schema["$defs"] else schema["properties"]["plan"]
    plan["properties"]["toy"] = {"$ref": own.as_uri()}
    plan["oneOf"].append({"required": ["toy"]})
    resolver = jsonschema.RefResolver(path.as_uri(), schema)
    return jsonschema.Draft202012Validator(schema, resolver=resolver), jsonschema.Draft202012Validator(toy)


def reader_accepts(program, document):
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        return (
            subprocess.run([program, "--check-scenario", file.name], capture_output=True, check=False).returncode == 0
        )


def main(program, root):
    whole, section = validator_of(root)
    shown = json.loads((root / "tests/toy_engine/toy.json").read_text(encoding="utf-8"))
    documents = [({"toy": value}, section.is_valid(value)) for value in SECTIONS]
    documents += [
        ({}, False),
        ({"toy": {}, "fully_shard": {"wrap": [{"modules": [""]}]}}, False),
    ]  # exactly one section
    failures, accepted = [], 0
    for plan, is_right in documents:
        document = {**copy.deepcopy(shown), "plan": plan}
        answers = {
            "expected": is_right,
            "schema": whole.is_valid(document),
            "reader": reader_accepts(program, document),
        }
        accepted += is_right
        if len(set(answers.values())) > 1:
            failures.append(f"{json.dumps(plan)}: {answers}")
    if not whole.is_valid(shown) or not reader_accepts(program, shown):
        failures.append("the schema or the reader refuses the document of this folder")
    for failure in failures:
        print("FAIL", failure)
    print(f"{len(documents)} plans, {accepted} accepted")
    return 1 if failures or accepted != 2 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
