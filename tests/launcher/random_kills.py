#!/usr/bin/env python3
"""Runs in which one rank is ended at a random moment: is every result that was finished in the report, and is it that
rank that is named?

    random_kills.py LAUNCHER PROGRAM [RUNS [SEED]]

Prints its seed; the same seed draws the same ranks, ways and moments. Some runs are made side by side. Ends with 1
at the first run that is not as it should be, whose folder is kept. The launcher waits 30 s for a rank that is stopped
before it joins: fewer than 100 RUNS stop ranks in their cases only.
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
SIDE_BY_SIDE = 8  # most of the time is spent waiting for ranks that were stopped
WAYS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "SIGSTOP": signal.SIGSTOP, "exit": None}


def rank_processes(launcher):
    """The ranks of a launcher that have begun to be themselves, by number."""
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
    """Positions that every rank of a world has ended, with the outcomes of all ranks."""
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
    """Makes one run. Returns (way, place) of the rank's end, or None if the run was over before."""
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
    said, _ = process.communicate(timeout=120)
    found = check(run, way, victim, process.returncode, said)
    report = json.loads((run / "report.json").read_text())
    verdicts = collections.Counter(result["verdict"] for result in report["cases"])
    if process.returncode == 0:
        return None
    return (way, "in a case" if verdicts["crashed"] + verdicts["hung"] else "outside"), found


def check(run, way, victim, code, said):
    """Raises Wrong; gives the number of results that all ranks had finished, each of which is in the report."""
    found = 0
    report = json.loads((run / "report.json").read_text())
    if len(report["cases"]) != REPEAT:
        raise Wrong(f"{len(report['cases'])} results for {REPEAT} cases\n{said}")
    by_world = collections.defaultdict(list)
    for result in report["cases"]:
        by_world[result["world"]].append(result)
    for number, results in by_world.items():
        results.sort(key=lambda result: result["repetition"])
        for position, outcomes in finished_cases(run / "worlds" / str(number)).items():
            if position >= len(results) or [rank["outcome"] for rank in results[position]["ranks"]] != outcomes:
                raise Wrong(f"world {number} ended case {position} with {outcomes}, which is not in the report\n{said}")
            found += 1
    verdicts = collections.Counter(result["verdict"] for result in report["cases"])
    if code == 0:
        if verdicts != {"passed": REPEAT}:
            raise Wrong(f"exit code 0 with {dict(verdicts)}\n{said}")
        return found
    if code not in (3, 4):
        raise Wrong(f"exit code {code} with {dict(verdicts)}\n{said}")
    bad = verdicts["crashed"] + verdicts["hung"]
    if bad > 1 or (code == 4 and verdicts["passed"] + bad + verdicts["not_run"] != REPEAT):
        raise Wrong(f"{dict(verdicts)}\n{said}")
    if way == "SIGSTOP" and verdicts["crashed"] or way != "SIGSTOP" and verdicts["hung"]:
        raise Wrong(f"{way} became {dict(verdicts)}\n{said}")
    explained = [world["explanation"] for world in report["worlds"] if "explanation" in world] or [said]
    if not any(f"rank {victim} " in sentence for sentence in explained):
        raise Wrong(f"rank {victim} is to blame, and what is said is {explained}\n{said}")
    if code == 4 and verdicts["not_run"] and bad and "before its first" not in explained[0]:
        raise Wrong(f"the run did not go on: {dict(verdicts)}\n{said}")
    return found


def attempt(seed, number, stops_early):
    """As one_run. Raises Wrong with the folder that is kept."""
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
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
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
                if found is None:  # too late: the killed process had no work left
                    seen["too late"] += 1
                    running.add(next(attempts))
                else:
                    seen[found[0]] += 1
                    results += found[1]
    for what, count in sorted(seen.items(), key=str):
        print(f"{count:5}  {what if isinstance(what, str) else ', '.join(what)}")
    print(f"{runs} ranks ended and named; all {results} results that had been finished are in the reports")
    return 0


if __name__ == "__main__":
    LAUNCHER, PROGRAM = map(os.path.abspath, sys.argv[1:3])
    RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    SEED = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(2**32)
    sys.exit(main(RUNS, SEED))
