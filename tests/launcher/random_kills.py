#!/usr/bin/env python3
"""Ends one rank of each run at a random moment. Every finished result must be in the report, and the report must name
that rank.

    random_kills.py LAUNCHER PROGRAM [RUNS [SEED]]

Prints its seed. The same seed draws the same ranks, ways and moments. Several runs go on at the same time. Ends with 1
at the first wrong run, and keeps its folder. The launcher waits 30 s for a rank that is stopped before it joins. So
with fewer than 100 RUNS, ranks are stopped only in their cases.
"""
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 3
REPEAT = 300
PARALLEL_RUNS = 8  # most of the time is spent waiting for stopped ranks
WAYS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "SIGSTOP": signal.SIGSTOP, "exit": None}


def rank_processes(launcher):
    """The process of each rank of a launcher that has its own environment already, by number."""
    found = {}
    try:
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    except OSError:
        return found
    for child in children:
        try:
            environment = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in environment:
            if variable.startswith(b"SHARDPROOF_RANK="):
                found[int(variable.split(b"=")[1])] = int(child)
    return found


def finished_cases(world):
    """The positions of cases that every rank of a world has ended, with the outcomes of all ranks."""
    ended = []
    for stream in sorted(world.glob("ranks/rank-*.jsonl")):
        outcomes = {}
        for line in stream.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                continue
            event = json.loads(line)
            if event["event"] == "case_ended":
                outcomes[event["position"]] = event["outcome"]
        ended.append(outcomes)
    if len(ended) < RANKS:
        return {}
    return {
        position: [outcomes[position] for outcomes in ended]
        for position in ended[0]
        if all(position in outcomes for outcomes in ended)
    }


def has_begun(stream):
    """Whether the rank has reached its first case."""
    return stream.exists() and b"case_started" in stream.read_bytes()


class Wrong(Exception):
    pass


def one_run(draw, folder, stops_early):
    """Makes one run. Returns (way, place) of the rank's end, or None if the run had ended before."""
    way = draw.choice(list(WAYS))
    victim = draw.randrange(RANKS)
    delay = draw.uniform(0, 0.05)
    run = pathlib.Path(folder) / "run"
    environment = {"PATH": os.environ["PATH"]}
    if way == "exit":
        environment["EXIT"] = f"{victim} {int(delay * 1e6)}"
    command = [
        LAUNCHER,
        "run",
        "good/meets[W=3]",
        "--repeat",
        str(REPEAT),
        "--timeout",
        "2",
        "--worker",
        PROGRAM,
        "--out",
        str(run),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder
    )
    hit = way == "exit"
    if way != "exit":
        at = time.monotonic() + delay
        stream = run / f"worlds/0/ranks/rank-{victim}.jsonl"
        any_time = way != "SIGSTOP" or stops_early
        while process.poll() is None and not hit:
            if time.monotonic() >= at and (any_time or has_begun(stream)):
                rank = rank_processes(process.pid).get(victim)
                if rank is not None:
                    try:
                        os.kill(rank, WAYS[way])
                        hit = True
                    except ProcessLookupError:
                        pass
            time.sleep(0.0005)
    output, _ = process.communicate(timeout=120)
    found = check(run, way, victim, process.returncode, output)
    report = json.loads((run / "report.json").read_text())
    verdicts = collections.Counter(result["verdict"] for result in report["cases"])
    if process.returncode == 0:
        return None
    return (way, "in a case" if verdicts["crashed"] + verdicts["hung"] else "outside"), found


def check(run, way, victim, code, output):
    """Returns the number of results that all ranks have finished. Raises Wrong if the report lacks one of them."""
    found = 0
    report = json.loads((run / "report.json").read_text())
    if len(report["cases"]) != REPEAT:
        raise Wrong(f"{len(report['cases'])} results for {REPEAT} cases\n{output}")
    by_world = collections.defaultdict(list)
    for result in report["cases"]:
        by_world[result["world"]].append(result)
    for number, results in by_world.items():
        results.sort(key=lambda result: result["repetition"])
        for position, outcomes in finished_cases(run / "worlds" / str(number)).items():
            if position >= len(results) or [rank["outcome"] for rank in results[position]["ranks"]] != outcomes:
                raise Wrong(f"world {number} ended case {position} with {outcomes}, which the report lacks\n{output}")
            found += 1
    verdicts = collections.Counter(result["verdict"] for result in report["cases"])
    if code == 0:
        if verdicts != {"passed": REPEAT}:
            raise Wrong(f"exit code 0 with {dict(verdicts)}\n{output}")
        return found
    if code not in (3, 4):
        raise Wrong(f"exit code {code} with {dict(verdicts)}\n{output}")
    bad = verdicts["crashed"] + verdicts["hung"]
    if bad > 1 or (code == 4 and verdicts["passed"] + bad + verdicts["not_run"] != REPEAT):
        raise Wrong(f"{dict(verdicts)}\n{output}")
    if way == "SIGSTOP" and verdicts["crashed"] or way != "SIGSTOP" and verdicts["hung"]:
        raise Wrong(f"{way} became {dict(verdicts)}\n{output}")
    explained = [world["explanation"] for world in report["worlds"] if "explanation" in world] or [output]
    if not any(f"rank {victim} " in sentence for sentence in explained):
        raise Wrong(f"rank {victim} was ended, but the report says {explained}\n{output}")
    if code == 4 and verdicts["not_run"] and bad and "before its first" not in explained[0]:
        raise Wrong(f"the run did not continue: {dict(verdicts)}\n{output}")
    return found


def attempt(seed, number, stops_early):
    """Calls one_run. Raises Wrong with the kept folder."""
    folder = tempfile.mkdtemp(prefix="shardproof-kills-")
    try:
        ended = one_run(random.Random(f"{seed} {number}"), folder, stops_early)
    except Exception as error:
        raise Wrong(f"run {number + 1}: {error}\nkept: {folder}") from error
    shutil.rmtree(folder)
    return ended


def main(runs, seed):
    print(f"seed {seed}", flush=True)
    seen = collections.Counter()
    results = 0
    with concurrent.futures.ThreadPoolExecutor(PARALLEL_RUNS) as pool:
        attempts = (pool.submit(attempt, seed, number, runs >= 100) for number in itertools.count())
        running = set(itertools.islice(attempts, runs))
        while running:
            ended, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in ended:
                try:
                    found = one.result()
                except Wrong as error:
                    print(error)
                    pool.shutdown(cancel_futures=True)
                    return 1
                if found is None:  # too late: the killed process had finished its work
                    seen["too late"] += 1
                    running.add(next(attempts))
                else:
                    seen[found[0]] += 1
                    results += found[1]
    for what, count in sorted(seen.items(), key=str):
        print(f"{count:5}  {what if isinstance(what, str) else ', '.join(what)}")
    print(f"{runs} ranks were ended and named; all {results} finished results are in the reports")
    return 0


if __name__ == "__main__":
    LAUNCHER, PROGRAM = map(os.path.abspath, sys.argv[1:3])
    RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(2**32)
    sys.exit(main(RUNS, SEED))
