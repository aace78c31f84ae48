"""A case declares every feature that its scenario uses: otherwise it fails on an engine that has not claimed the
feature.

The test's engine claims everything and refuses every plan. So each case leaves its scenarios as evidence."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

REFUSING_ENGINE = """
import sys
from shardproof.subject import Subject
from shardproof.worker import run

class Refusing(Subject):
    name = "refusing"
    version = "1"
    claims = {claims!r}

    def create(self, model, plan, engine_context):
        raise NotImplementedError("any plan")

sys.exit(run(Refusing(), sys.argv))
"""
ACCUMULATION = (
    "set_requires_gradient_sync",
    "set_requires_all_reduce",
    "set_reshard_after_backward",
    "set_is_last_backward",
)
FEATURES_OF_CALLS = {
    "post_optim_event": "post_optim_event",
    "clip_grad_norm": "clip_grad_norm",
    "extend": "all_gather_extensions",
    "materialize": "meta_initialisation",
    "initialize": "meta_initialisation",
    **dict.fromkeys(("unshard", "wait_for_unshard", "reshard", "set_unshard_in_backward"), "manual_unshard"),
    **dict.fromkeys(ACCUMULATION, "gradient_accumulation"),
}
FEATURES_OF_PLANS = ("ignored_parameters", "shard_dims", "gradient_divide_factor", "mixed_precision")
FEATURES_OF_FLAT_PLANS = {
    "validate_order": "order_validation",
    "use_orig_params": "orig_params",
    "forward_prefetch": "forward_prefetch",
    "limit_all_gathers": "gather_limit",
}
FEATURES_OF_REPLICATED_PLANS = {
    "gradients": "gradient_views",
    "unused_parameters": "unused_parameters",
    "compile": "compiled_step",
    "tensor_parallel": "tensor_parallel",
    "parameter_dtypes": "parameter_dtypes",
}


def modules(module: dict) -> Iterator[dict]:
    yield module
    for child in module.get("children", []):
        yield from modules(child)


def of_model(model: dict) -> Iterator[str]:
    kinds = {module["kind"] for module in modules(model["root"])}
    is_language_model = bool(kinds & {"embedding", "layer_norm", "attention"})
    if is_language_model or model.get("loss", {}).get("kind") == "cross_entropy":
        yield "language_model"
    if kinds & {"use", "discard", "list", "scale"} or ("residual" in kinds and not is_language_model):
        yield "module_groups"
    if "convolution" in kinds:
        yield "convolution"
    if model.get("init", "uniform") != "uniform":
        yield "truncated_normal"
    for module in modules(model["root"]):
        if module.get("frozen"):
            yield "module_groups"
        if module.get("tied_to"):
            yield "shared_parameters"
        if module.get("tensor", "plain") != "plain":
            yield "all_gather_extensions"
        if module.get("forward_sleep") or module.get("backward_sleep"):
            yield "timeline"


def of_plan(plan: dict) -> Iterator[str]:
    if "flat_shard" in plan:
        yield from of_flat_section(plan["flat_shard"])
    if "replicate" in plan:
        yield from (feature for key, feature in FEATURES_OF_REPLICATED_PLANS.items() if plan["replicate"].get(key))
    section = plan.get("fully_shard", {"wrap": []})  # one case is about a plan for another kind of engine
    yield from (feature for feature in FEATURES_OF_PLANS if {**plan, **section}.get(feature))
    if len(plan.get("mesh", {}).get("shape", [])) > 1 and "replicate" not in plan:
        yield "replicated_mesh"
    if plan.get("initialisation", "direct") == "meta":
        yield "meta_initialisation"
    if section.get("backward_prefetch", "previous") != "previous":
        yield "prefetch_lists"
    for group in section["wrap"]:
        if len(group["modules"]) > 1:
            yield "module_groups"
        if type(group.get("reshard_after_forward")) is int:
            yield "reshard_to_size"
        if group.get("forward_prefetch") or group.get("backward_prefetch"):
            yield "prefetch_lists"


def of_flat_section(section: dict) -> Iterator[str]:
    yield from (feature for key, feature in FEATURES_OF_FLAT_PLANS.items() if key in section)
    if section.get("backward_prefetch", "before") != "before":
        yield "prefetch_after"


def of_call(call: dict) -> Iterator[str]:
    if feature := FEATURES_OF_CALLS.get(call["call"]):
        yield feature
    if call["call"] in ("forward", "evaluate") and call.get("module"):
        yield "module_groups"
    if call.get("method"):
        yield "forward_methods"
    if "fails_in" in call:
        yield "failed_forward"
    if call["call"] == "register_hook":
        is_own = call["hook"] in ("fp16_compress", "bf16_compress")
        of_reduction = "compressing_hooks" if is_own else "gradient_hooks"
        yield of_reduction if call.get("point", "reduction") == "reduction" else "reduction_hooks"


def features_of(scenario: dict) -> set[str]:
    """The features of a scenario, as docs/plug-in-an-engine.md describes them."""
    used = {*of_model(scenario["model"]), *of_plan(scenario["plan"])}
    for segment in scenario["script"]["segments"]:
        for call in segment["body"]:
            used.update(of_call({"call": call} if isinstance(call, str) else call))
    costs = scenario.get("costs", {})
    used.update(
        feature
        for key, feature in (("single_stream", "serial"), ("hide_undeclared_memory", "hidden_memory"))
        if costs.get(key)
    )
    return used


def shardproof(*arguments: str) -> str:
    return subprocess.run(
        [os.environ["SHARDPROOF"], *arguments], capture_output=True, text=True, timeout=600, check=False
    ).stdout


class NeedsTest(unittest.TestCase):
    maxDiff = None

    def test_every_case_declares_what_its_scenarios_use(self) -> None:
        # A generated case knows its needs only after it has drawn its scenario.
        cases = [case for case in json.loads(shardproof("list", "--json"))
                 if not case.get("on_request") and "generator" not in case["params"]]
        played = {}  # one world size for each
        for case in sorted(cases, key=lambda case: case["world_size"]):
            played.setdefault(
                (case["id"].split("[")[0], *(item for item in case["params"].items() if item[0] != "W")), case
            )
        claims: dict[str, set[str]] = {}
        for case in cases:
            claims.setdefault(case["engine"], {"thread_ranks"}).update(case["needs"])
        with tempfile.TemporaryDirectory() as folder:
            engine = Path(folder) / "engine.py"
            engine.write_text(
                f"#!{sys.executable} -B"
                + REFUSING_ENGINE.format(claims={kind: sorted(of_kind) for kind, of_kind in claims.items()})
            )
            engine.chmod(0o755)
            ids = [case["id"] for case in played.values()]
            shardproof("run", "--profile", "full", *ids, "--worker", str(engine), "--out", f"{folder}/run", "--quiet")
            undeclared = {}
            for case in played.values():
                name = case["id"].replace("/", ".")
                scenarios = [
                    path for path in Path(folder).glob("run/worlds/*/evidence/*.json") if path.name.startswith(name)
                ]
                self.assertNotEqual(scenarios, [], case["id"])
                used = set().union(*(features_of(json.loads(path.read_text())) for path in scenarios))
                # An engine of this kind may refuse it.
                if case["params"].get("mistake") == "pair" or case["id"].startswith("replicate/pair_of_tensors["):
                    used.discard("all_gather_extensions")
                if missing := used - set(case["needs"]):
                    undeclared[case["id"]] = missing
        self.assertGreater(len(played), 300)
        self.assertEqual(undeclared, {})


if __name__ == "__main__":
    unittest.main()
