"""Runs worlds on GPUs that are threads of the CPU, through the launcher.

    launched_test.py PART SHARDPROOF WORKER BACKEND… [COMMAND]     COMMAND starts ranks, for the part `command`
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "launcher"))
from launcher_option_test import foreign, is_gone, parent_of, wait_for

part, launcher, worker, *backends = sys.argv[1:]


def command_line(directory, *arguments, program=worker):
    return [launcher, "run", *arguments, "--worker", program, "--out", str(pathlib.Path(directory, "run"))]


def run(directory, *arguments, program=worker):
    """Returns the report, the exit code and the output."""
    out = pathlib.Path(directory, "run")
    command = command_line(directory, *arguments, program=program)
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    output = done.stdout + done.stderr
    assert (out / "report.json").exists(), output
    return json.loads((out / "report.json").read_text()), done.returncode, output


def on_tables(directory, *arguments, backend=0, program=worker):
    return run(directory, *arguments, "--device", "cuda", "--backend", backends[backend], program=program)


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


def gpus_of(report):
    return [[host["gpus"] for host in world["hosts"]] for world in report["worlds"]]


def uuid(gpu):
    return f"GPU-00000000-0000-0000-0000-{gpu:012}"


def script(directory, name, text):
    file = pathlib.Path(directory, name)
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return str(file)


def merges_alike(directory, report):
    folder = pathlib.Path(directory, "run")
    merged = subprocess.run([launcher, "merge", str(folder)], capture_output=True, text=True, timeout=60)
    assert json.loads((folder / "report.json").read_text()) == report, merged.stdout + merged.stderr


def guards():
    """Guards find the GPUs for their ranks, and the launcher's own host may have none."""
    start = foreign()
    works = ["gpu/works", "--launcher"]
    with tempfile.TemporaryDirectory() as directory:  # each process of the command sees another GPU, as under Slurm
        bind = script(directory, "bind", 'CUDA_VISIBLE_DEVICES=$((5 - OMPI_COMM_WORLD_RANK)) exec "$@"\n')
        report, code, output = on_tables(directory, *works, f"{start} {bind}", "--gpus", "1")
        assert code == 0 and gpus_of(report) == [[[uuid(5), uuid(4)]]], output
        assert " on 8 x" not in output, output
        merges_alike(directory, report)
    with tempfile.TemporaryDirectory() as directory:  # the launcher sees no GPU
        blind = script(directory, "blind", f'[ "$GUARDED$1" = --list-gpus ] && exit 9\nexec {worker} "$@"\n')
        report, code, output = on_tables(directory, *works, f"GUARDED=1 {start}", program=blind)
        assert code == 0 and gpus_of(report) == [[[uuid(0), uuid(1)]]], output
        assert "gpus" not in report["machine"], report["machine"]
        _, code, output = on_tables(directory, "gpu/works", "--overwrite", program=blind)
        assert code == 3 and "asked with --list-gpus, ended with exit code 9" in output, output
    with tempfile.TemporaryDirectory() as directory:  # a variable of the launcher replaces the command's
        say = script(directory, "say", f'echo "$CUDA_MODULE_LOADING $NCCL_ALGO" >&2\nexec {worker} "$@"\n')
        own = "CUDA_MODULE_LOADING=LAZY NCCL_ALGO=Tree"
        report, code, output = on_tables(
            directory, *works, f"{own} {start}", "--gpus", "1", "--share-gpus", program=say
        )
        assert code == 0 and gpus_of(report) == [[[uuid(0)] * 2]], output
        assert report["worlds"][0]["unfit_for_timing"] == "2 ranks share 1 GPU", report["worlds"]
        logs = pathlib.Path(directory, "run/worlds/0/logs")
        for rank in (0, 1):
            assert (logs / f"rank-{rank}.err").read_text().startswith("EAGER Ring\n"), rank
        plan = json.loads(pathlib.Path(directory, "run/worlds/0/plan.json").read_text())
        assert plan["unfit_for_timing"] == "2 ranks share 1 GPU", plan
        merges_alike(directory, report)
    with tempfile.TemporaryDirectory() as directory:  # a later world of the run gets its own GPUs
        shared = ["--gpus", "1", "--share-gpus", "--timeout", "4"]
        report, code, output = on_tables(directory, "gpu/dies", *works, start, *shared)
        assert code == 4 and len(report["worlds"]) == 2, output
        own_ids = [world["environment"][1]["NCCL_HOSTID"] for world in report["worlds"]]
        assert own_ids == ["shardproof-0-rank-1", "shardproof-1-rank-1"], own_ids
    refusals = {
        "--gpus 1": r"no GPU is left for rank 1 on \S+: ranks 0, 1 on this machine may use 1 GPU, and each rank needs "
        r"its own; start fewer ranks on each host, on more hosts, or let ranks share GPUs \(--share-gpus\)",
        "--gpus 9": r"on \S+: --gpus 9: there are 8 GPUs",
    }
    for options, why in refusals.items():
        with tempfile.TemporaryDirectory() as directory:
            _, code, output = on_tables(directory, *works, start, *options.split())
            assert code == 3 and re.search(why, output), output
    with tempfile.TemporaryDirectory() as directory:
        _, code, output = on_tables(directory, *works, f"CUDA_VISIBLE_DEVICES= {start}")
        why = r"no GPUs for rank 0 on \S+: cudaGetDeviceCount: cudaErrorNoDevice"
        assert code == 3 and re.search(why, output), output
    with tempfile.TemporaryDirectory() as directory:
        crashing = script(directory, "crashing", f'[ "$GUARDED$1" = 1--list-gpus ] && kill -9 $$\nexec {worker} "$@"\n')
        _, code, output = on_tables(directory, *works, f"GUARDED=1 {start}", program=crashing)
        assert code == 3 and re.search(
            r"rank [01] on \S+: cannot list the GPUs of backend .* ended with signal 9", output
        ), output
    with tempfile.TemporaryDirectory() as directory:  # more GPUs than a message to the launcher has room for
        listing = json.loads(subprocess.run([worker, "--list-gpus", backends[0]], capture_output=True).stdout)
        listing["gpus"] = [{**listing["gpus"][0], "index": gpu, "uuid": uuid(gpu), "peers": []} for gpu in range(1000)]
        pathlib.Path(directory, "listing").write_text(json.dumps(listing))
        many = script(
            directory, "many", f'[ "$1" = --list-gpus ] && exec cat {directory}/listing\nexec {worker} "$@"\n'
        )
        _, code, output = on_tables(directory, *works, start, program=many)
        assert code == 3 and re.search(
            r"rank [01] on \S+: its list of 1000 GPUs is too long for a message to the launcher; show it fewer GPUs "
            r"\(CUDA_VISIBLE_DEVICES\)", output
        ), output
    with tempfile.TemporaryDirectory() as directory:  # A worker gets the variables of its subject with each question.
        os.mkdir(f"{directory}/bin")
        subjects = """sed 's/"subjects": *\\[\\]/"subjects":[{"name":"pytorch","version":"1"}]/'"""
        script(
            directory,
            "bin/shardproof-pytorch-worker",
            f'[ "$1" = --list-json ] && {{ {worker} "$@" | {subjects}; exit; }}\n'
            f'[ "$SHARDPROOF_WORKER_LIBRARY" ] || exit 9\nexec {worker} "$@"\n',
        )
        asked = [launcher, "run", *works, start, "--subject", "pytorch", "--out", f"{directory}/run"]
        asked += ["--device", "cuda", "--backend", backends[0], "--gpus", "9"]
        own = {**os.environ, "SHARDPROOF_PYTORCH": directory}
        done = subprocess.run(asked, capture_output=True, text=True, timeout=250, env=own)
        assert done.returncode == 3 and re.search(refusals["--gpus 9"], done.stderr), done.stdout + done.stderr


BOOT_ID = "/proc/sys/kernel/random/boot_id"


class TwoHosts:
    """Runs of four ranks on the nodes n0 and n1, which are names that Slurm would give. Each node shows its ranks GPUs
    of its own."""

    def __init__(self, n0, n1, *, are_machines=False):
        """`n0`, `n1`: values of CUDA_VISIBLE_DEVICES. Nodes that are machines have boot ids of their own."""
        self.shown = {"n0": n0, "n1": n1}
        self.are_machines = are_machines

    def run(self, *options):
        with tempfile.TemporaryDirectory() as directory:
            cases = " ".join(f"{node}) CUDA_VISIBLE_DEVICES={gpus};;" for node, gpus in self.shown.items())
            own = f"case $SLURMD_NODENAME in {cases} esac\nexport CUDA_VISIBLE_DEVICES\n"
            show = script(directory, "show", own + 'exec "$@"\n')
            if self.are_machines:
                for number, node in enumerate(self.shown):
                    pathlib.Path(directory, node).write_text(f"00000000-0000-0000-0000-{number:012}\n")
                boot = f"mount --bind {directory}/$SLURMD_NODENAME {BOOT_ID}"
                show += " unshare -m " + script(directory, "boot", f'{boot}\nexec "$@"\n')
            start = foreign("--per-host", "2", show)
            report, self.code, self.output = on_tables(directory, "gpu/spreads", "--launcher", start, *options)
            if self.code == 0:
                merges_alike(directory, report)
            return report["worlds"][0]

    def gpus(self, *options):
        """The numbers of the GPUs of n0 and of n1."""
        world = self.run(*options)
        assert self.code == 0, self.output
        found = [(host["name"], host["ranks"]) for host in world["hosts"]]
        assert found == [("n0", [0, 1]), ("n1", [2, 3])], self.output
        self.unfit_for_timing = world.get("unfit_for_timing", "")
        return [[int(gpu[-12:]) for gpu in host["gpus"]] for host in world["hosts"]]

    def assert_refused(self, says, *options):
        self.run(*options)
        assert self.code == 3 and re.search(says, self.output), self.output


def hosts():
    """The ranks of two hosts get GPUs of their own host. The hosts are one machine, or two machines with equal GPUs."""
    apart = TwoHosts("0,1,2", "4,5,6")
    assert apart.gpus() == [[0, 1], [4, 5]] and apart.unfit_for_timing == "", apart.output
    assert apart.gpus("--gpus", "2,0") == [[2, 0], [6, 4]], apart.output
    apart.assert_refused(r"on n0: --gpus 4: there are 3 GPUs", "--gpus", "4")
    # On one machine, a GPU that both hosts show is one GPU.
    assert TwoHosts("0,1", "1,0,3,2").gpus() == [[0, 1], [3, 2]]
    TwoHosts("0,1", "0,1").assert_refused(
        r"no GPU is left for rank 2 on n1: ranks 0…3 on this machine may use 2 GPUs, and each rank needs its own"
    )
    TwoHosts("0,1,2,3", "0,1").assert_refused(
        r"no GPU is left for rank 2 on n1: it may use 2 GPUs, which earlier ranks have, and ranks 0…3 on this machine "
        r"may use 4 GPUs together; let each rank see all GPUs of n1, for example without --gpus-per-task and "
        r"--gpu-bind, or let ranks share GPUs \(--share-gpus\)"
    )
    TwoHosts("0,1", "").assert_refused(r"no GPUs for rank 2 on n1: cudaGetDeviceCount: cudaErrorNoDevice")
    own_boot_id = ["unshare", "-m", "mount", "--bind", "/proc/version", BOOT_ID]
    if os.geteuid() != 0 or subprocess.run(own_boot_id, capture_output=True).returncode != 0:
        return print("not tested: hosts that are two machines, because this user cannot give them boot ids")
    equal = TwoHosts("0,1,2", "0,1,2", are_machines=True)
    assert equal.gpus() == [[0, 1], [0, 1]] and equal.unfit_for_timing == "", equal.output
    assert equal.gpus("--gpus", "2,1") == [[2, 1], [2, 1]], equal.output
    assert equal.gpus("--gpus", "GPU-00000000-0000-0000-0000-000000000001,0") == [[1, 0], [1, 0]], equal.output
    equal.assert_refused(
        r"no GPU is left for rank 1 on n0: ranks 0, 1 on this machine may use 1 GPU, and each rank needs its own",
        "--gpus", "1",
    )
    few = TwoHosts("0,1", "0", are_machines=True)
    few.assert_refused(
        r"no GPU is left for rank 3 on n1: ranks 2, 3 on this machine may use 1 GPU, and each rank needs its own"
    )
    few.assert_refused(r"on n1: --gpus 1: no such GPU; choose from 0 \(GPU-0{8}-", "--gpus", "0,1")
    assert few.gpus("--share-gpus") == [[0, 1], [0, 0]], few.output  # only one host needs to
    assert few.unfit_for_timing == "4 ranks share 3 GPUs", few.unfit_for_timing


def stuck_guards():
    """Guards whose question for GPUs has no answer: the launcher names them, and they end with their launcher or their
    command. The launcher also names a guard that is killed meanwhile."""
    start = foreign()
    with tempfile.TemporaryDirectory() as directory:
        # The worker of rank 1 does not answer.
        stuck = script(
            directory,
            "stuck",
            f'[ "$GUARD$1" = 1--list-gpus ] || exec {worker} "$@"\necho $$ >{directory}/new\n'
            f"mv {directory}/new {directory}/asked\nexec sleep 1000\n",
        )
        name = script(directory, "name", 'GUARD=$OMPI_COMM_WORLD_RANK exec "$@"\n')
        arguments = ["gpu/works", "--launcher", f"{start} {name}", "--device", "cuda", "--backend", backends[0]]
        asked = pathlib.Path(directory, "asked")

        _, code, output = run(directory, *arguments, "--join-timeout", "3s", program=stuck)
        assert code == 3 and re.search(
            r"the guard of rank 1 on \S+ has not listed its GPUs within 3 s \(--join-timeout\)", output
        ), output
        wait_for(lambda: is_gone(int(asked.read_text())))
        # The parent of the question is the guard, and the guard's parent is the small launcher.
        for end in ("launcher", "command", "guard"):
            asked.unlink()
            process = subprocess.Popen(
                command_line(directory, *arguments, "--overwrite", program=stuck),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            wait_for(asked.exists)
            question = int(asked.read_text())
            guard = parent_of(question)
            ends = {"launcher": process.pid, "command": parent_of(guard), "guard": guard}
            os.kill(ends[end], signal.SIGKILL)
            wait_for(lambda: is_gone(question) and is_gone(guard))
            output, _ = process.communicate(timeout=60)
            if end == "command":
                assert process.returncode == 3 and "the command ended with signal 9" in output, output
            if end == "guard":  # The command lives on.
                says = r"the guard of rank 1 on \S+ ended before the ranks began"
                assert process.returncode == 3 and re.search(says, output), output


def command():
    """The same where a command starts the ranks. Each rank has its own GPU, on one host and on two hosts."""
    start = backends[-1]
    trouble("--launcher", start)
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        report, code, output = on_tables(here, "gpu/works", "--launcher", start)
        own, _, _ = on_tables(there, "gpu/works")
        assert code == 0 and report["summary"]["passed"] == 1, output
        assert gpus_of(report) == [[[uuid(0), uuid(1)]]], output
        difference = subprocess.run(
            [launcher, "diff", str(pathlib.Path(there, "run")), str(pathlib.Path(here, "run"))],
            capture_output=True, text=True, timeout=60,
        )
        assert difference.returncode == 0 and own["summary"] == report["summary"], difference.stdout
    with tempfile.TemporaryDirectory() as directory:
        _, code, output = on_tables(directory, "gpu/works", "--launcher", start, "--gpus", "1")
        assert code == 3 and "ranks 0, 1 on this machine may use 1 GPU, and each rank needs its own" in output, output
    with tempfile.TemporaryDirectory() as directory:
        report, code, output = on_tables(directory, "gpu/works", "--launcher", start, "--gpus", "1", "--share-gpus")
        assert code == 0 and gpus_of(report) == [[[uuid(0)] * 2]], output
        assert report["worlds"][0]["unfit_for_timing"] == "2 ranks share 1 GPU", output
    with tempfile.TemporaryDirectory() as directory:
        apart = "sh -c 'SLURMD_NODENAME=n$PMI_RANK$OMPI_COMM_WORLD_RANK exec \"$@\"' sh"
        report, code, output = on_tables(directory, "gpu/works", "--launcher", f"{start} {apart}")
        # The GPUs are assigned before the ranks meet. If two hosts are one machine, no GPU is
        # assigned twice.
        assert gpus_of(report) == [[[uuid(0)], [uuid(1)]]], output
        assert [host["name"] for host in report["worlds"][0]["hosts"]] == ["n0", "n1"], output
        assert code == 0 and report["summary"]["passed"] == 1, output
        merges_alike(directory, report)


parts = {
    "suite": suite,
    "contract": contract,
    "trouble": trouble,
    "lost": lost,
    "guards": guards,
    "hosts": hosts,
    "stuck_guards": stuck_guards,
    "command": command,
}
parts[part]()
