"""Worlds of ranks on GPUs that are threads of the CPU, as the launcher sees them. Usage: launched_test.py PART SHARDPROOF WORKER BACKEND…"""
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


def suite():
    """Every case of the overlap suite has the verdict and the measurements that it has on the simulated device."""
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        simulated, code, said = run(here, "overlap")
        assert code == 0, said
        tables, code, said = on_tables(there, "overlap")
        assert code == 0, said
        assert {world["device"] for world in tables["worlds"]} == {"cuda"} and {world["fabric"] for world in tables["worlds"]} == {"nccl"}
        expected, found = by_id(simulated), by_id(tables)
        assert expected.keys() == found.keys() and len(found) > 700
        skipped = {name for name, case in found.items() if case["verdict"] == "skipped"}
        # Memory of a GPU cannot be hidden from work; that is all that cannot be had.
        assert all(name.startswith("overlap/declared_memory") for name in skipped), skipped
        measured = 0
        for name, case in found.items():
            if name in skipped:
                continue
            assert case["verdict"] == expected[name]["verdict"] == "passed", (name, case)
            assert case.get("measurements") == expected[name].get("measurements"), name
            measured += len(case.get("measurements", {}))
        assert measured > 300, measured
    with tempfile.TemporaryDirectory() as directory:  # times from records, of all that spins and of every collective
        recorded, code, said = on_tables(directory, "overlap/training_overlap", "--times", "cupti")
        assert code == 0 and {world["times"] for world in recorded["worlds"]} == {"cupti"}, said
        measurements = {name: case.get("measurements") for name, case in by_id(recorded).items()}
        assert measurements == {name: expected[name].get("measurements") for name in measurements} and len(measurements) == 4, said


def contract():
    """The same cases on every device and fabric."""
    for kind in ([], ["--fabric", "thread"], ["--fabric", "thread", "--scheduler", "free"]):
        with tempfile.TemporaryDirectory() as directory:
            report, code, said = run(directory, *kind)
            assert code == 0 and report["summary"]["passed"] > 90, said
            # What is done as it is issued cannot be held back.
            assert all(case["verdict"] == "passed" or any(word in case["id"] for word in ("held", "gate", "timeline")) for case in report["cases"]), said
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
    """A rank that dies, fails or does not come is told by its number, and what is left runs."""
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
        assert "rank 1 never entered all_reduce #0 of 1 f32 (sum) \"sum\" in group world (NCCL) (rank 0 waits since" in said, said


def lost():
    """A rank whose GPU does not end what it was told to end cannot go on, and says so."""
    with tempfile.TemporaryDirectory() as directory:
        report, code, said = on_tables(directory, "gpu/fails", "gpu/works", backend=1)
        cases = by_id(report)
        assert code != 0 and cases["gpu/fails[W=2]"]["verdict"] != "passed", said
        assert "is lost: work on it did not end when it was told to" in said, said


{"suite": suite, "contract": contract, "trouble": trouble, "lost": lost}[part]()
