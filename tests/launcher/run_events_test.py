#!/usr/bin/env python3
"""Checks the events of `run --message-format json`: each line follows the schema, the events agree with the report, and
each stream ends with `run_finished`, however the run ends.

    run_events_test.py SCHEMA SHARDPROOF TROUBLE_PROGRAM
"""
import collections
import copy
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import jsonschema

SCHEMA, SHARDPROOF, TROUBLE = sys.argv[1:4]
VALIDATOR = jsonschema.Draft202012Validator(json.loads(pathlib.Path(SCHEMA).read_text(encoding="utf-8")))
failures = []


def check(is_right, what):
    if not is_right:
        failures.append(what)


def start(out, *words, worker=TROUBLE):
    command = [SHARDPROOF, "run", "--worker", worker, "--message-format", "json", "--out", str(out), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_events(name, out, lines, code):
    """Returns the events of a stream. A place in a world has the verdict of its last event."""
    events = [json.loads(line) for line in lines]
    for event in events:
        for error in VALIDATOR.iter_errors(event):
            failures.append(f"{name}: {event}: {error.json_path}: {error.message}")
    kinds = [event["event"] for event in events]
    check(kinds.count("run_finished") == 1 and kinds[-1] == "run_finished", f"{name}: it ends with {kinds[-1:]}")
    last = events[-1]
    check(last["exit_code"] == code, f"{name}: exit code {code}, not {last['exit_code']}")
    check(kinds.count("world_started") == kinds.count("world_finished"), f"{name}: a world has no end: {kinds}")
    if last["report"] is None:
        return events
    report = json.loads(pathlib.Path(last["report"]).read_text(encoding="utf-8"))
    check(pathlib.Path(last["report"]).samefile(out / "report.json"), f"{name}: another report: {last['report']}")
    check(last["summary"] == report["summary"], f"{name}: {last['summary']} is not {report['summary']}")
    check(kinds[0] == "run_started", f"{name}: it begins with {kinds[0]}")
    seen, alone = {}, []
    for event in events:
        if event["event"] != "case_finished":
            continue
        what = (event["id"], event["attempt"], event["verdict"], event["waived"])
        if event["world"] is None:
            alone.append(what)
            continue
        place = (event["world"], event["position"])
        check(event["revised"] == (place in seen), f"{name}: {event} is wrong about an earlier event")
        check(seen.get(place) != what, f"{name}: {event} says nothing new")
        seen[place] = what
    reported = [
        (case["id"], case.get("attempt", 0), case["verdict"], case.get("waiver") is not None)
        for case in report["cases"]
    ]
    streamed = collections.Counter([*seen.values(), *alone])
    check(streamed == collections.Counter(reported), f"{name}: {streamed} is not {collections.Counter(reported)}")
    return events


def run(name, folder, *words, worker=TROUBLE):
    out = folder / name.replace(" ", "_")
    process = start(out, *words, worker=worker)
    printed, _ = process.communicate(timeout=240)
    check("\x1b" not in printed, f"{name}: control codes")
    return check_events(name, out, printed.splitlines(), process.returncode)


def check_live(folder):
    """A case is printed while its world still runs, and an interrupted run ends its stream."""
    out = folder / "live"
    process = start(out, "good/stays", "bad/hangs", "--timeout", "60", "-q")
    lines = []
    for line in process.stdout:
        lines.append(line)
        if '"id":"good/stays[W=2]"' in line:
            break
    check(process.poll() is None, "live: the run had ended before its first case was printed")
    check(not any("world_finished" in line for line in lines), "live: the case came with the end of its world")
    process.send_signal(signal.SIGINT)
    lines += process.stdout.readlines()
    process.wait(timeout=60)
    events = check_events("live", out, lines, process.returncode)
    check(events[-1]["interrupted_by"] == signal.SIGINT and events[-1]["exit_code"] == 130, f"live: {events[-1]}")


def check_refusals(folder):
    for words, why in (
        (["--junit", "-"], "--message-format json with an export to -: standard output holds the events"),
        (["--message-format", "yaml"], "--message-format: unknown value 'yaml'"),
    ):
        words = ["good/stays", *words]
        process = start(folder / "refused", *words) if "yaml" not in words else subprocess.Popen(
            [SHARDPROOF, "run", "--worker", TROUBLE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        out, err = process.communicate(timeout=60)
        check(process.returncode == 2 and out == "" and why in err, f"{words}: {process.returncode} {out} {err}")


def spoiled(event):
    for key, value in event.items():
        less = copy.deepcopy(event)
        del less[key]
        yield f"without {key}", less
        yield f"{key} is a list", {**event, key: []}
        if isinstance(value, int) and not isinstance(value, bool):
            yield f"{key} is negative", {**event, key: -2}
    yield "another field", {**event, "new_field": 1}
    yield "another event", {**event, "event": "other"}


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        events = run("passes", folder, "good")
        check(events[0]["cases"] == 4 and events[0]["worlds"] == 3, f"passes: {events[0]}")
        check(events[-1]["exit_code"] == 0, f"passes: {events[-1]}")
        events += run("fails", folder, "good/stays", "bad/check", "skip", "fails", "--timeout", "2")
        events += run("dies", folder, "good", "bad/killed", "bad/segfault", "dies", "--timeout", "2")
        events += run("lies", folder, "lies", "good", "--timeout", "2", "--max-hangs", "100")
        events += run("tries again", folder, "flaky", "bad/check", "good", "--retries", "3", "--jobs", "2")
        events += run("repeats", folder, "many", "good", "--repeat", "5", "-q")
        events += run("fails fast", folder, "bad/check", "many", "good", "--fail-fast", "--jobs", "2")
        events += run("no worker", folder, worker="/no/worker")
        check(events[-1]["exit_code"] == 2 and "/no/worker" in events[-1]["error"], f"no worker: {events[-1]}")
        check_live(folder)
        check_refusals(folder)
    shown = {}
    for event in events:
        if event["event"] not in shown or event.get("failure"):
            shown[event["event"]] = event
    refused = 0
    for event in shown.values():
        for what, other in spoiled(event):
            refused += 1
            check(not VALIDATOR.is_valid(other), f"the schema accepts {event['event']} where {what}")
    check(len(shown) == 5 and refused > 80, f"{len(shown)} kinds of events, {refused} spoiled events")
    for failure in failures:
        print("FAIL", failure)
    print(f"{len(events)} events")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
