"""Checks that the schema and the reader of waivers accept the same files. Both judge a file that has every field, and
copies of it in which one value is replaced, removed or added.

usage: waiver_schema_test.py READER ROOT
"""

import copy
import json
import pathlib
import subprocess
import sys

import jsonschema

VALUES = [
    None,
    True,
    -1,
    0,
    1,
    2,
    1.5,
    2**31 - 1,
    2**31,
    "",
    "x",
    "failed",
    "passed",
    "disagreed",
    "2030-12-31",
    "2030-13-01",
    "2030-02-30",
    [],
    ["x"],
    {},
    {"x": 1},
]


def places(value, place=()):
    yield place
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(child, place + (key,))


def at(document, place):
    for key in place:
        document = document[key]
    return document


def changed(document):
    for place in places(document):
        if not place:
            yield from VALUES
            continue
        for value in VALUES:
            other = copy.deepcopy(document)
            at(other, place[:-1])[place[-1]] = value
            yield other
        other = copy.deepcopy(document)
        del at(other, place[:-1])[place[-1]]
        yield other
        if isinstance(at(document, place), dict):
            other = copy.deepcopy(document)
            at(other, place)["new_field"] = 1
            yield other


def main():
    root = pathlib.Path(sys.argv[2])
    schema = json.loads((root / "reports/model/schema/waivers.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    shown = [json.loads((root / path).read_text(encoding="utf-8"))
             for path in ("tests/fuzz/corpus/waivers/everything.json", "fixtures/pytorch/waivers.json")]
    guide = (root / "docs/skips-and-waivers.md").read_text(encoding="utf-8")
    shown += [json.loads(block.split("```")[0]) for block in guide.split("```json\n")[1:]]
    assert len(shown) > 2, "the guide shows no waiver"
    documents = [*shown, *changed(shown[0])]
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    answers = subprocess.run([sys.argv[1]], input=lines, capture_output=True, text=True, check=True).stdout.split("\n")[
        :-1
    ]
    assert len(answers) == len(documents)
    complaints = [
        f"the schema {'accepts' if validator.is_valid(document) else 'refuses'}, the reader says '{answer}': "
        f"{json.dumps(document)}"
        for document, answer in zip(documents, answers)
        if validator.is_valid(document) != (not answer)
    ]
    complaints += [f"refused: {answer}" for answer in answers[:len(shown)] if answer]
    print(
        "\n".join(complaints[:20])
        or f"schema and reader agree on {len(documents)} documents, {answers.count('')} of them waivers"
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
