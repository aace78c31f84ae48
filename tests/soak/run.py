"""One run of the launcher under disturbances, and what it left on the disk."""
import collections
import json
import os
import pathlib
import shlex
import subprocess

REPEAT = 300
MARK = "SHARDPROOF_SOAK"  # in the environment of all processes of a run
FOREIGN = pathlib.Path(__file__).resolve().parents[1] / "launcher/foreign_launcher.py"


class Broken(Exception):
    """A promise of docs/reliability.md that a run did not keep."""


def read(file):
    try:
        return pathlib.Path(file).read_bytes()
    except OSError:  # the process has ended
        return b""


class Run:
    """`folder` is the run's own. `sizes` are its world sizes, with REPEAT cases each."""

    def __init__(self, programs, folder, sizes, options=(), small=None, environment=None):
        """`small`: a folder of the run, and a script that mounts a small file system there, as $SMALL. No process of
        others sees it. The run's files are copied to `folder` at its end, if they are there."""
        launcher, program = programs
        self.folder = pathlib.Path(folder)
        self.sizes = sizes
        self.out = self.folder / "run"
        cases = [f"good/meets[W={size}]" for size in sizes]
        command = [launcher, "run", *cases, "--repeat", str(REPEAT), "--worker", program, *options]
        if small:
            place, mount = small
            out = pathlib.Path(place) / "run" if place.is_relative_to(self.folder) else self.out
            place.mkdir(exist_ok=True)
            script = (f"SMALL={place}\n{mount}\n{shlex.join(command)} --out {out}\ncode=$?\n"
                      f"[ {out} = {self.out} ] || cp -a {out} {self.out}\nexit $code")
            command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
        else:
            command += ["--out", str(self.out)]
        environment = {"PATH": os.environ["PATH"], MARK: folder, **(environment or {})}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
            cwd=folder, start_new_session=True,  # Ctrl-C ends the soak after this run
        )
        self.output = ""

    def end(self):
        """Waits for the launcher. Returns its exit code, which is negative for a signal."""
        try:
            self.output, _ = self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            raise Broken("the launcher has not ended after 120 s") from None
        (self.folder / "output").write_text(self.output)
        return self.process.returncode

    def ranks(self):
        """The process of each rank that has its own environment already, by number. For runs of one world."""
        found = {}
        for child in read(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split():
            for variable in read(f"/proc/{int(child)}/environ").split(b"\0"):
                if variable.startswith(b"SHARDPROOF_RANK="):
                    found[int(variable.split(b"=")[1])] = int(child)
        return found

    def launched(self):
        """The processes that a command has started for ranks, by role and rank: `("guard", 1)`. The command, too."""
        found = {}
        for process in self.processes():
            words = read(f"/proc/{process}/cmdline").split(b"\0")
            variables = dict(word.partition(b"=")[::2] for word in read(f"/proc/{process}/environ").split(b"\0"))
            if b"SHARDPROOF_RANK" in variables:
                found["rank", int(variables[b"SHARDPROOF_RANK"])] = process
            elif b"--join" in words and b"SLURM_PROCID" in variables:
                found["guard", int(variables[b"SLURM_PROCID"])] = process
            elif FOREIGN.name.encode() in b" ".join(words[:2]):
                found["command", 0] = process
        return found

    def original(self):
        """The process that ranks are copies of, or None if it does not exist."""
        for child in read(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split():
            if b"--warm" in read(f"/proc/{int(child)}/cmdline").split(b"\0"):
                return int(child)
        return None

    def processes(self):
        """All processes of the run that live, the launcher included."""
        mark = f"{MARK}={self.folder}".encode()
        return [
            int(entry.name)
            for entry in pathlib.Path("/proc").iterdir()
            if entry.name.isdigit() and mark in read(entry / "environ").split(b"\0")
        ]

    def has_begun(self, rank):
        """Whether the rank has reached its first case. For runs of one world."""
        return b"case_started" in read(self.out / f"worlds/0/ranks/rank-{rank}.jsonl")

    def report(self):
        """The report, or None if the run has made no report."""
        text = read(self.out / "report.json")
        return json.loads(text) if text else None


def finished_cases(world, size):
    """The positions of cases that every rank of a world has ended, with the outcomes of all ranks."""
    ended = []
    for stream in sorted(world.glob("ranks/rank-*.jsonl")):
        outcomes = {}
        for line in read(stream).splitlines(keepends=True):
            if line.endswith(b"\n"):
                event = json.loads(line)
                if event["event"] == "case_ended":
                    outcomes[event["position"]] = event["outcome"]
        ended.append(outcomes)
    if len(ended) < size:
        return {}
    return {
        position: [outcomes[position] for outcomes in ended]
        for position in ended[0]
        if all(position in outcomes for outcomes in ended)
    }


def check_results(run, report):
    """Every case is in the report, and each with the outcomes that all of its ranks have written. Returns the number of
    these cases."""
    expected = REPEAT * len(run.sizes)
    if len(report["cases"]) != expected:
        raise Broken(f"{len(report['cases'])} results for {expected} cases")
    by_world = collections.defaultdict(list)
    for result in report["cases"]:
        by_world[result["world"]].append(result)
    found = 0
    for number, results in by_world.items():
        results.sort(key=lambda result: result["repetition"])
        world = run.out / "worlds" / str(number)
        for position, outcomes in finished_cases(world, results[0]["world_size"]).items():
            if position >= len(results) or [rank["outcome"] for rank in results[position]["ranks"]] != outcomes:
                raise Broken(f"world {number} ended case {position} with {outcomes}, which the report lacks")
            found += 1
    return found


def verdicts(report):
    return collections.Counter(result["verdict"] for result in report["cases"])
