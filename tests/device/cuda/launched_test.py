"""Runs worlds on GPUs that are threads of the CPU, through the launcher.

    launched_test.py PART SHARDPROOF WORKER BACKEND… [COMMAND]     COMMAND starts ranks, for the part `command`
"""
import json
import pathlib
import subprocess
import sys
import tempfile

part, launcher, worker, *backends = sys.argv[1:]


def run(directory, *arguments):
    """Returns the report, the exit code and the output."""
    out = pathlib.Path(directory, "run")
    command = [launcher, "run", *arguments, "--worker", worker, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    output = done.stdout + done.stderr
    assert (out / "report.json").exists(), output
    return json.loads((out / "report.json").read_text()), done.returncode, output


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
    """Every case of the overlap suite has the same verdict and measurements as on the simulated device. On streams with
    exact clocks, events have the times that follow from order and costs."""
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        simulated, code, output = run(here, "overlap")
        assert code == 0, output
        tables, code, output = on_tables(there, "overlap")
        assert code == 0, output
        assert {world["device"] for world in tables["worlds"]} == {"cuda"} and {
            world["fabric"] for world in tables["worlds"]
        } == {"nccl"}
        expected, found = by_id(simulated), by_id(tables)
        assert expected.keys() == found.keys() and len(found) > 700
        skipped = {name for name, case in found.items() if case["verdict"] == "skipped"}
        # A GPU cannot hide memory from work. This is the only reason for skips.
        assert {skip["reason"] for skip in tables["skips"]} == {
            "CUDA on the CPU cannot hide memory from work (costs.hide_undeclared_memory)"
        }
        measured = proven = 0
        for name, case in found.items():
            if name in skipped:
                continue
            assert case["verdict"] == expected[name]["verdict"] == "passed", (name, case)
            # The simulated device cannot hold back some work, so it proves a result by the order alone.
            proven += case.get("measurements", {}).pop("proven_by_gate", {"value": 0})["value"]
            assert case.get("measurements") == expected[name].get("measurements"), name
            measured += len(case.get("measurements", {}))
        assert measured > 300 and proven >= 32, (measured, proven)
    chosen = ["overlap/any*", "overlap/mesh*", "overlap/post_optim*", "--trace"]
    for times in ("events", "cupti"):
        with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
            run(here, *chosen)
            tables, code, output = on_tables(there, *chosen, "--times", times)
            assert {world.get("times", "events") for world in tables["worlds"]} == {times}, output
            expected, found = drawn(here), drawn(there)
            assert len(found) > 100, len(found)
            for name, events in found.items():
                assert events == expected[name], (times, name)


def contract():
    """Every device and fabric passes the same cases."""
    for kind in ([], ["--fabric", "thread"], ["--fabric", "thread", "--scheduler", "free"]):
        with tempfile.TemporaryDirectory() as directory:
            report, code, output = run(directory, *kind)
            assert code == 0 and report["summary"]["passed"] > 90, output
            # Work that runs at once cannot be held back.
            assert all(
                case["verdict"] == "passed" or any(word in case["id"] for word in ("held", "gate", "timeline"))
                for case in report["cases"]
            ), output
    with tempfile.TemporaryDirectory() as directory:
        report, code, output = on_tables(directory)
        assert code == 0, output
        skipped = [case["id"] for case in report["cases"] if case["verdict"] == "skipped"]
        assert len([name for name in skipped if "rank_order_is_kept" in name]) == 2, skipped
        assert len([name for name in skipped if "timeline" in name]) == 4 and len(skipped) == 6, skipped
    with tempfile.TemporaryDirectory() as directory:
        report, code, output = on_tables(directory, "--times", "cupti")
        assert code == 0 and report["summary"]["passed"] > 100, output
        verdicts = {case["verdict"] for case in report["cases"] if "rank_order_is_kept" not in case["id"]}
        assert verdicts == {"passed"}, output


def outcomes(case):
    return [rank["outcome"] for rank in case["ranks"]]


def trouble(*options):
    """The report names the number of a rank that dies, fails or stays away, and the other cases run."""
    with tempfile.TemporaryDirectory() as directory:
        chosen = ["gpu/dies", "gpu/fails", "gpu/stays_away", "gpu/works"]
        report, code, output = on_tables(directory, *chosen, "--timeout", "4", *options)
        cases = by_id(report)
        assert code == 4, output
        assert cases["gpu/dies[W=2]"]["verdict"] == "crashed", output
        assert "signal 9" in output and "rank 0 released: rank 1" in output, output
        assert cases["gpu/fails[W=2]"]["verdict"] == "failed", output
        assert outcomes(cases["gpu/fails[W=2]"]) == ["released", "failed"], output
        assert cases["gpu/stays_away[W=2]"]["verdict"] in ("error", "hung"), output
        assert "rank 1 has posted 0 of 1 calls of group world" in output, output
        assert cases["gpu/works[W=2]"]["verdict"] == "passed", output
    with tempfile.TemporaryDirectory() as directory:  # before the waiting rank reaches its deadline
        report, code, output = on_tables(directory, "gpu/hangs", "--timeout", "2", *options)
        assert (
            "rank 1 never entered all_reduce #0 of 1 f32 (sum) \"sum\" in group world (NCCL) (rank 0 has waited for"
            in output
        ), output


def lost():
    """A rank whose GPU is lost reports that in the current case, and a new world runs the other cases."""
    with tempfile.TemporaryDirectory() as directory:  # the GPU does not end aborted work
        report, code, output = on_tables(directory, "gpu/fails", "gpu/works", backend=1)
        cases = by_id(report)
        assert code == 1, output
        assert cases["gpu/fails[W=2]"]["verdict"] == "failed", output
        assert outcomes(cases["gpu/fails[W=2]"]) == ["released", "failed"], output
        assert (
            "is lost: its work did not stop" in cases["gpu/fails[W=2]"]["ranks"][0]["reason"]
        ), output
        assert cases["gpu/works[W=2]"]["verdict"] == "passed", output
        assert len(report["worlds"]) == 2 and not any(world.get("defects") for world in report["worlds"]), output
        assert "ended early: rank 0 cannot go on: GPU 0" in output, output
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
    with tempfile.TemporaryDirectory() as directory:  # a sticky error that the case itself does not notice
        report, code, output = on_tables(directory, "gpu/works", "--repeat", "3", backend=2)
        assert code == 1 and len(report["worlds"]) == 3, output
        assert [case["verdict"] for case in report["cases"]] == ["error"] * 3, output
        for case in report["cases"]:
            assert outcomes(case) == ["passed", "error"], output
            assert (
                case["ranks"][1]["reason"].startswith("cannot go on: GPU 0 (")
                and "is out of order" in case["ranks"][1]["reason"]
            ), output
    with tempfile.TemporaryDirectory() as directory:  # the same error in every world
        report, code, output = on_tables(directory, "gpu/works", "--repeat", "9", "--max-hangs", "1", backend=2)
        assert [case["verdict"] for case in report["cases"]] == ["error"] * 2 + ["not_run"] * 7, output
        assert "2 worlds have been lost" in output and len(report["worlds"]) < 4, output


def command():
    """The same where a command starts the ranks. Each rank has its own GPU. Ranks on two hosts are refused."""
    start = backends[-1]
    trouble("--launcher", start)
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        report, code, output = on_tables(here, "gpu/works", "--launcher", start)
        own, _, _ = on_tables(there, "gpu/works")
        assert code == 0 and report["summary"]["passed"] == 1, output
        gpus = [host["gpus"] for world in report["worlds"] for host in world["hosts"]]
        assert gpus and all(len(set(of_world)) == len(of_world) == 2 for of_world in gpus), gpus
        difference = subprocess.run(
            [launcher, "diff", str(pathlib.Path(there, "run")), str(pathlib.Path(here, "run"))],
            capture_output=True, text=True, timeout=60,
        )
        assert difference.returncode == 0 and own["summary"] == report["summary"], difference.stdout
    with tempfile.TemporaryDirectory() as directory:
        apart = "sh -c 'SLURMD_NODENAME=n$PMI_RANK$OMPI_COMM_WORLD_RANK exec \"$@\"' sh"
        _, code, output = on_tables(directory, "gpu/works", "--launcher", f"{start} {apart}")
        assert code == 3, output
        assert "the fabric nccl reaches one host; let the command start all ranks on one" in output, output


{"suite": suite, "contract": contract, "trouble": trouble, "lost": lost, "command": command}[part]()
