"""Worlds of ranks on GPUs that are threads of the CPU, as the launcher sees them. Usage: launched_test.py PART
SHARDPROOF WORKER BACKEND…"""
import json
import pathlib
import subprocess
import sys
import tempfile

part, launcher, worker, *backends = sys.argv[1:]


def run(directory, *arguments):
    """The report, the exit code and what was said."""
    out = pathlib.Path(directory, "run")
    command = [launcher, "run", *arguments, "--worker", worker, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    said = done.stdout + done.stderr
    assert (out / "report.json").exists(), said
    return json.loads((out / "report.json").read_text()), done.returncode, said


def on_tables(directory, *arguments, backend=0):
    return run(directory, *arguments, "--device", "cuda", "--backend", backends[backend])


def by_id(report):
    return {case["id"]: case for case in report["cases"]}


def drawn(directory):
    """The events of a play's traces, by file, without the numbers of collectives.

    On the harness's own fabric these numbers continue from play to play.
    """
    traces = {}
    for file in pathlib.Path(directory).rglob("traces/*.json"):
        events = json.loads(file.read_text())["traceEvents"]
        for event in events:
            event.get("args", {}).pop("sequence", None)
        traces[str(file.relative_to(directory))] = events
    return traces


def suite():
    """Every case of the overlap suite has the verdict and the measurements that it has on the simulated device, and on
    streams whose clocks are exact the events say the very times that follow from order and costs."""
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        simulated, code, said = run(here, "overlap")
        assert code == 0, said
        tables, code, said = on_tables(there, "overlap")
        assert code == 0, said
        assert {world["device"] for world in tables["worlds"]} == {"cuda"} and {
            world["fabric"] for world in tables["worlds"]
        } == {"nccl"}
        expected, found = by_id(simulated), by_id(tables)
        assert expected.keys() == found.keys() and len(found) > 700
        skipped = {name for name, case in found.items() if case["verdict"] == "skipped"}
        # Memory of a GPU cannot be hidden from work; that is all that cannot be had.
        assert {skip["reason"] for skip in tables["skips"]} == {
            "CUDA on the CPU cannot hide memory from work (costs.hide_undeclared_memory)"
        }
        measured = proven = 0
        for name, case in found.items():
            if name in skipped:
                continue
            assert case["verdict"] == expected[name]["verdict"] == "passed", (name, case)
            # The simulated device cannot hold some work back, and then proves a result from the order alone.
            proven += case.get("measurements", {}).pop("proven_by_gate", {"value": 0})["value"]
            assert case.get("measurements") == expected[name].get("measurements"), name
            measured += len(case.get("measurements", {}))
        assert measured > 300 and proven >= 32, (measured, proven)
    chosen = ["overlap/any*", "overlap/mesh*", "overlap/post_optim*", "--trace"]
    for times in ("events", "cupti"):
        with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
            run(here, *chosen)
            tables, code, said = on_tables(there, *chosen, "--times", times)
            assert {world.get("times", "events") for world in tables["worlds"]} == {times}, said
            expected, found = drawn(here), drawn(there)
            assert len(found) > 100, len(found)
            for name, events in found.items():
                assert events == expected[name], (times, name)


def contract():
    """The same cases on every device and fabric."""
    for kind in ([], ["--fabric", "thread"], ["--fabric", "thread", "--scheduler", "free"]):
        with tempfile.TemporaryDirectory() as directory:
            report, code, said = run(directory, *kind)
            assert code == 0 and report["summary"]["passed"] > 90, said
            # Work that runs as soon as it is issued cannot be held back.
            assert all(
                case["verdict"] == "passed" or any(word in case["id"] for word in ("held", "gate", "timeline"))
                for case in report["cases"]
            ), said
    with tempfile.TemporaryDirectory() as directory:
        report, code, said = on_tables(directory)
        assert code == 0, said
        skipped = [case["id"] for case in report["cases"] if case["verdict"] == "skipped"]
        assert len([name for name in skipped if "rank_order_is_kept" in name]) == 2, skipped
        assert len([name for name in skipped if "timeline" in name]) == 4 and len(skipped) == 6, skipped
    with tempfile.TemporaryDirectory() as directory:
        report, code, said = on_tables(directory, "--times", "cupti")
        assert code == 0 and report["summary"]["passed"] > 100, said
        assert all(case["verdict"] == "passed" or "rank_order_is_kept" in case["id"] for case in report["cases"]), said


def outcomes(case):
    return [rank["outcome"] for rank in case["ranks"]]


def trouble():
    """The report names a rank that dies, fails or does not come by its number, and the remaining cases run."""
    with tempfile.TemporaryDirectory() as directory:
        chosen = ["gpu/dies", "gpu/fails", "gpu/stays_away", "gpu/works"]
        report, code, said = on_tables(directory, *chosen, "--timeout", "4")
        cases = by_id(report)
        assert code == 4, said
        assert cases["gpu/dies[W=2]"]["verdict"] == "crashed", said
        assert "signal 9" in said and "rank 0 released: rank 1" in said, said
        assert cases["gpu/fails[W=2]"]["verdict"] == "failed", said
        assert outcomes(cases["gpu/fails[W=2]"]) == ["released", "failed"], said
        assert cases["gpu/stays_away[W=2]"]["verdict"] in ("error", "hung"), said
        assert "rank 1 has posted 0 of 1 calls of group world" in said, said
        assert cases["gpu/works[W=2]"]["verdict"] == "passed", said
    with tempfile.TemporaryDirectory() as directory:  # before the rank that waits has given up
        report, code, said = on_tables(directory, "gpu/hangs", "--timeout", "2")
        assert (
            "rank 1 never entered all_reduce #0 of 1 f32 (sum) \"sum\" in group world (NCCL) (rank 0 waits since"
            in said
        ), said


def lost():
    """A rank whose GPU is lost reports that in the current case, and a new world runs the other cases."""
    with tempfile.TemporaryDirectory() as directory:  # the GPU does not end aborted work
        report, code, said = on_tables(directory, "gpu/fails", "gpu/works", backend=1)
        cases = by_id(report)
        assert code == 1, said
        assert cases["gpu/fails[W=2]"]["verdict"] == "failed", said
        assert outcomes(cases["gpu/fails[W=2]"]) == ["released", "failed"], said
        assert (
            "is lost: work on it did not end when it was told to" in cases["gpu/fails[W=2]"]["ranks"][0]["reason"]
        ), said
        assert cases["gpu/works[W=2]"]["verdict"] == "passed", said
        assert len(report["worlds"]) == 2 and not any(world.get("defects") for world in report["worlds"]), said
        assert "ended early: rank 0 cannot go on: GPU 0" in said, said
        merged = subprocess.run(
            [launcher, "merge", str(pathlib.Path(directory, "run"))], capture_output=True, text=True, timeout=60
        )
        assert merged.returncode == 1, merged.stdout + merged.stderr
        assert json.loads(pathlib.Path(directory, "run", "report.json").read_text()) == report
        explained = subprocess.run(
            [launcher, "explain", str(pathlib.Path(directory, "run"))], capture_output=True, text=True, timeout=60
        )
        assert (
            explained.stdout.startswith("world 0: rank 0 cannot go on: GPU 0 (") and explained.returncode == 0
        ), explained.stdout
        assert report["worlds"][0]["explanation"].startswith("rank 0 cannot go on: GPU 0 ("), report["worlds"]
    with tempfile.TemporaryDirectory() as directory:  # an error that stays, of which the case itself has seen nothing
        report, code, said = on_tables(directory, "gpu/works", "--repeat", "3", backend=2)
        assert code == 1 and len(report["worlds"]) == 3, said
        assert [case["verdict"] for case in report["cases"]] == ["error"] * 3, said
        for case in report["cases"]:
            assert outcomes(case) == ["passed", "error"], said
            assert (
                case["ranks"][1]["reason"].startswith("cannot go on: GPU 0 (")
                and "is out of order" in case["ranks"][1]["reason"]
            ), said
    with tempfile.TemporaryDirectory() as directory:  # the same, without end
        report, code, said = on_tables(directory, "gpu/works", "--repeat", "9", "--max-hangs", "1", backend=2)
        assert [case["verdict"] for case in report["cases"]] == ["error"] * 2 + ["not_run"] * 7, said
        assert "2 worlds have been lost" in said and len(report["worlds"]) < 4, said


{"suite": suite, "contract": contract, "trouble": trouble, "lost": lost}[part]()
