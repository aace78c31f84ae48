#!/usr/bin/env python3
"""Checks that the schema and the reader accept the same scenarios. Both judge every document that the project shows,
and copies of one document in which one value is replaced, or one key is added or missing.

    schema_test.py READER ROOT EVERY     # judges every EVERY-th of the copies: the validator is slow
"""
import copy
import json
import pathlib
import re
import subprocess
import sys

import jsonschema

VALUES = [
    None,
    True,
    -1,
    0,
    1,
    1.5,
    2**20,
    2**20 + 1,
    2**31 - 1,
    2**31,
    10**12,
    "",
    "x",
    "25ms",
    "1.5us ",
    [],
    ["x"],
    {},
    {"x": 1},
]

# The reader refuses the whole document, although it can read each part.
OF_THE_WHOLE = re.compile(r"^of the whole: ")


def everything():
    """A document with every key."""
    return {
        "version": 2,
        "model": {
            "root": {
                "kind": "sequential",
                "children": [
                    {
                        "name": "embedding",
                        "kind": "embedding",
                        "vocabulary": 4,
                        "features": 2,
                        "positions": 4,
                        "frozen": True,
                    },
                    {
                        "name": "block",
                        "kind": "residual",
                        "frozen": False,
                        "children": [
                            {"name": "norm", "kind": "layer_norm", "features": 2},
                            {"name": "mix", "kind": "attention", "features": 2},
                            {"name": "scale", "kind": "scale", "scalar": True},
                        ],
                    },
                    {"name": "spare", "kind": "list", "children": [{"name": "relu", "kind": "relu"}]},
                    {
                        "name": "aside",
                        "kind": "discard",
                        "children": [{"name": "again", "kind": "use", "module": "spare.relu"}],
                    },
                    {
                        "name": "window",
                        "kind": "convolution",
                        "channels": 1,
                        "in_features": 2,
                        "out_features": 2,
                        "bias": True,
                        "tensor": "plain",
                        "frozen": False,
                    },
                    {
                        "name": "head",
                        "kind": "linear",
                        "in_features": 2,
                        "out_features": 4,
                        "bias": False,
                        "tied_to": "embedding",
                        "contiguous": True,
                        "tensor": "plain",
                        "forward_sleep": "25ms",
                        "backward_sleep": 50,
                    },
                ],
            },
            "loss": {"kind": "dot", "divisor": 2, "seed": 3},
            "init_divisor": 4,
            "init": "truncated_normal",
        },
        "plan": {
            "mesh": {"shape": [1, 2], "names": ["replicate", "shard"]},
            "mixed_precision": {"param": "bf16", "reduce": "f32", "output": "f16", "cast_forward_inputs": False},
            "initialisation": "meta",
            "optimizer": {
                "kind": "adamw",
                "rate": 0.5,
                "beta1": 0.5,
                "beta2": 0.5,
                "epsilon": 1e-9,
                "weight_decay": 0.1,
            },
            "fully_shard": {
                "wrap": [
                    {"modules": ["block.norm", "block.mix"], "reshard_after_forward": 2, "forward_prefetch": ["head"]},
                    {"modules": ["head"], "reshard_after_forward": "automatic", "backward_prefetch": ["block.mix"]},
                    {"modules": [""]},
                ],
                "backward_prefetch": "none",
                "ignored_parameters": ["block.scale.factor"],
                "shard_dims": {"block.mix.query": -1},
                "gradient_divide_factor": 2.5,
            },
        },
        "script": {
            "input": [2, 4],
            "input_divisor": 2,
            "keep_tensors": True,
            "segments": [
                {
                    "body": [
                        {
                            "call": "extend",
                            "parameter": "embedding.weight",
                            "extension": "bf16",
                            "form": "minimal",
                            "hooks": ["pre", "post"],
                        },
                        {
                            "call": "register_hook",
                            "module": "head",
                            "hook": "doubled",
                            "point": "after_reduction",
                            "state": 5,
                            "direct": True,
                            "refused": False,
                            "fails_on": [1, 0],
                            "ranks": [0, 1],
                        },
                        {"call": "materialize", "module": "block"},
                        "initialize",
                    ]
                },
                {
                    "iterations": 2,
                    "body": [
                        "evaluate",
                        {"call": "unshard", "module": "head", "async": True},
                        {"call": "wait_for_unshard", "module": "head"},
                        {"call": "forward", "module": "", "fails_in": "head"},
                        "forward",
                        "backward",
                        {"call": "set_requires_gradient_sync", "value": False, "module": "block"},
                        {"call": "set_is_last_backward", "value": True},
                        {"call": "clip_grad_norm", "max_norm": 0.5, "norm_type": "infinity"},
                        "step",
                    ],
                },
            ],
        },
        "costs": {
            "work": {"optimizer": "1ms", "forward": {"each": 1, "labelled": {"block.mix": "1s"}}},
            "collectives": {
                "all_gather": "1ms",
                "reduce_scatter": {"each": {"fixed": 1, "per_kib": "2ns"}, "tagged": {"head": 7}},
            },
            "host_call": "1us",
            "separate_resources": True,
            "single_stream": False,
            "hide_undeclared_memory": True,
        },
    }


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], path + (key,))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from places(value[index], path + (index,))


def at(document, path):
    for step in path:
        document = document[step]
    return document


def changed(document):
    for path in places(document):
        for value in VALUES:
            other = copy.deepcopy(document)
            if path:
                at(other, path[:-1])[path[-1]] = value
                yield other
            else:
                yield value
        if path and isinstance(at(document, path[:-1]), dict):
            other = copy.deepcopy(document)
            del at(other, path[:-1])[path[-1]]
            yield other
        if isinstance(at(document, path), dict):
            other = copy.deepcopy(document)
            at(other, path)["surplus"] = 1
            yield other


def apart(document):
    """Keys that the full document cannot have. For each such key, a list of documents; only the first one is valid."""
    # With imagined ranks, the world is the only group.
    yield [{**document, "costs": {**document.get("costs", {}), "imagined_ranks": value}} for value in [4, *VALUES]]
    # A script cannot give tokens.
    row = [0.5] * (document["script"]["input"][0] * document["script"]["input"][1])
    yield [
        {**document, "script": {**document["script"], "given": value}}
        for value in [
            [[row], [row, row]],
            *VALUES,
            *([value] for value in VALUES),
            *([[value]] for value in VALUES),
            [[["x"]]],
            [[[True]]],
            [[[None]]],
        ]
    ]
    # An extension is for one parameter, or for all parameters of a kind.
    extend = {"call": "extend", "tensor": "low_precision", "extension": "int8"}
    extends = [extend, {**extend, "parameter": "x"}, *({**extend, "tensor": value} for value in ["plain", *VALUES])]
    low = copy.deepcopy(document)
    next(linears(low["model"]["root"]))["tensor"] = "low_precision"
    yield [{**low, "script": {**low["script"], "segments": [{"body": [value]}]}} for value in extends]
    # A plan has one section.
    yield from replicated({"version": 2, "model": document["model"], "script": {**document["script"], "segments": []}})


def replicated(document):
    def of(sections):
        return [{**document, "plan": {"replicate": section}} for section in sections]

    for key, rights in (
        ("first_bucket_bytes", [1, 2**40]),
        ("bucket_bytes", [2**40, 1]),
        ("gradients", ["views", "copies"]),
        ("unused_parameters", [True]),
        ("compile", [{}]),
        ("tensor_parallel", [{}]),
        ("parameter_dtypes", [{}]),
    ):
        for right in rights:
            yield of({key: value} for value in [right, *VALUES])
    for key, rights in (
        ("region", ["backward", "forward_backward"]),
        ("fusion", ["concat", "coalesce", "none"]),
        ("schedule_waits", [False]),
    ):
        for right in rights:
            yield of({"compile": {key: value}} for value in [right, *VALUES])
    yield of([{}, {"surplus": 1}, {"compile": {"surplus": 1}}, {"tensor_parallel": {"x": "rows"}},
              {"parameter_dtypes": {"x": "f32"}}, {"bucket_bytes": 2**40 + 1}])


def linears(module):
    if module["kind"] == "linear":
        yield module
    for child in module.get("children", []):
        yield from linears(child)


def reader_says(reader, documents):
    """The reader's answer to each document: an empty text, or the reason for a refusal."""
    lines = "".join(json.dumps(document) + "\n" for document in documents)
    result = subprocess.run([reader], input=lines, capture_output=True, text=True, timeout=60, check=True)
    answers = result.stdout.splitlines()
    if len(answers) != len(documents):
        raise AssertionError(f"{len(answers)} answers to {len(documents)} documents")
    return answers


def main(reader, root, every):
    folder = root / "harness/scenario/schema"
    for path in folder.glob("*.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))
    path = folder / "scenario.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver(path.as_uri(), schema))
    paths = [
        path for shown_in in ("docs/scenarios", "docs/pytorch") for path in sorted((root / shown_in).glob("*.json"))
    ]
    shown = [json.loads(path.read_text(encoding="utf-8")) for path in paths] + [everything()]
    aside, wrong = [], []
    for right, *others in apart(shown[[path.name for path in paths].index("extensions.json")]):
        aside.append(right)
        wrong += others
    shown += aside
    documents = shown + wrong + list(changed(everything()))[::every]

    answers = reader_says(reader, documents)

    failures, refused = [], 0
    for number, (document, answer) in enumerate(zip(documents, answers)):
        accepted = validator.is_valid(document)
        refused += bool(answer)
        if number < len(shown) and (answer or not accepted):
            failures.append(
                f"a document that the project shows is refused: {answer or 'by the schema'}: {json.dumps(document)}"
            )
        elif accepted and answer and not OF_THE_WHOLE.match(answer):
            failures.append(f"the schema accepts what the reader refuses: {answer}: {json.dumps(document)}")
        elif not accepted and not answer:
            failures.append(f"the reader accepts what the schema refuses: {json.dumps(document)}")
    for failure in failures[:10]:
        print("FAIL", failure)
    print(f"{len(documents)} documents, {refused} refused, {len(failures)} failures")
    return 1 if failures or refused < len(documents) // 2 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])))
