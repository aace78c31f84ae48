"""The disturbances of a soak, and the promises of docs/reliability.md that each run must keep."""
import os
import pathlib
import signal
import subprocess
import sys
import time

from run import FOREIGN, REPEAT, Broken, Run, check_results, verdicts

ENDS_OF_RANKS = {"SIGKILL": signal.SIGKILL, "SIGSEGV": signal.SIGSEGV, "SIGSTOP": signal.SIGSTOP, "exit": None}


def wait_for(condition, seconds):
    """Polls every half a millisecond, since the moment of a disturbance must be at random."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            return False
        time.sleep(0.0005)
    return True


def send(process, number):
    """Returns whether the process has got the signal."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return False
    return True


def strike_rank(run, victim, number, delay, only_in_a_case=False):
    """Sends a signal to a rank after `delay` seconds, or as soon as the rank exists. Returns its process, or None if
    the run was over before."""
    at = time.monotonic() + delay
    while run.process.poll() is None:
        if time.monotonic() >= at and (run.has_begun(victim) or not only_in_a_case):
            rank = run.ranks().get(victim)
            if rank is not None and send(rank, number):
                return rank
        time.sleep(0.0005)
    return None


def require_all_passed(run, code):
    report = run.report()
    if code != 0 or report is None or verdicts(report) != {"passed": REPEAT * len(run.sizes)}:
        found = dict(verdicts(report)) if report else "no report"
        raise Broken(f"exit code {code} with {found}, but nothing was broken")
    return check_results(run, report)


def rank_ends(draw, programs, folder, is_long):
    """One rank ends, or stops, at a random moment. At most one case is lost. The report names the rank."""
    way = draw.choice(list(ENDS_OF_RANKS))
    victim, delay = draw.randrange(3), draw.uniform(0, 0.05)
    environment = {"EXIT": f"{victim} {int(delay * 1e6)}"} if way == "exit" else {}
    # Only a stopped rank has to be found by its deadline. On a busy machine, a short one could end healthy ranks.
    run = Run(programs, folder, [3], ["--timeout", "2" if way == "SIGSTOP" else "60"], environment=environment)
    if way != "exit":
        # The launcher waits 30 s for a rank that is stopped before it joins.
        strike_rank(run, victim, ENDS_OF_RANKS[way], delay, way == "SIGSTOP" and not is_long)
    code = run.end()
    report = run.report()
    found = check_results(run, report)
    of_verdicts = verdicts(report)
    if code == 0:
        require_all_passed(run, code)
        return None, found, run
    if code not in (3, 4):
        raise Broken(f"exit code {code} with {dict(of_verdicts)}")
    bad = of_verdicts["crashed"] + of_verdicts["hung"]
    if bad > 1 or (code == 4 and of_verdicts["passed"] + bad + of_verdicts["not_run"] != REPEAT):
        raise Broken(f"{dict(of_verdicts)}: more than one case is lost")
    if of_verdicts["crashed" if way == "SIGSTOP" else "hung"]:
        raise Broken(f"{way} became {dict(of_verdicts)}")
    explained = [world["explanation"] for world in report["worlds"] if "explanation" in world] or [run.output]
    if not any(f"rank {victim} " in sentence for sentence in explained):
        raise Broken(f"rank {victim} was ended, but the report says {explained}")
    if code == 4 and of_verdicts["not_run"] and bad and "before its first" not in explained[0]:
        raise Broken(f"the run did not go on: {dict(of_verdicts)}")
    return f"rank ended by {way}, {'in a case' if bad else 'before its first case or after its last'}", found, run


def launched_process_ends(draw, programs, folder, is_long):
    """A command starts the ranks, on two hosts in name. A rank, a guard or the command ends at a random moment. At most
    one case is lost. The report names the rank or the command."""
    role, way = draw.choice(["rank", "guard", "command"]), draw.choice(["SIGKILL", "SIGSEGV", "SIGTERM"])
    victim, delay = 0 if role == "command" else draw.randrange(3), draw.uniform(0, 0.6)
    command = f"{sys.executable} {FOREIGN} -n {{ranks}} --as srun --per-host 2 --kill-others"
    options = ["--timeout", "60", "--join-timeout", "20s", "--host-silence", "10s", "--fabric", "tcp"]
    run = Run(programs, folder, [3], [*options, "--launcher", command])
    at, is_hit = time.monotonic() + delay, False
    while run.process.poll() is None and not is_hit:
        process = run.launched().get((role, victim)) if time.monotonic() >= at else None
        is_hit = process is not None and send(process, getattr(signal, way))
        time.sleep(0.0005)
    code = run.end()
    if code == 0:
        return None, require_all_passed(run, code), run
    report = run.report()
    found = check_results(run, report)
    of_verdicts = verdicts(report)
    if code not in (3, 4) or set(of_verdicts) - {"passed", "crashed", "not_run"} or of_verdicts["crashed"] > 1:
        raise Broken(f"exit code {code} with {dict(of_verdicts)}")
    explained = [world["explanation"] for world in report["worlds"] if "explanation" in world]
    # A command passes SIGTERM on, to its guards.
    words = f"rank {victim} " if role != "command" else "guard" if way == "SIGTERM" else "command of --launcher"
    if code == 4 and not any(words in sentence for sentence in explained):
        raise Broken(f"{way} to {role} {victim}, but the report says {explained}")
    if code == 4 and of_verdicts["not_run"] and "before its first" not in explained[0]:
        raise Broken(f"the run did not go on: {dict(of_verdicts)}")
    return f"{role} ended by {way}, where a command starts the ranks", found, run


def rank_pauses(draw, programs, folder, is_long):
    """A rank stops, and goes on before a deadline. Every case passes."""
    run = Run(programs, folder, [3], ["--timeout", "60"])
    rank = strike_rank(run, draw.randrange(3), signal.SIGSTOP, draw.uniform(0, 0.05))
    time.sleep(draw.uniform(0, 0.3))
    if rank is not None:
        send(rank, signal.SIGCONT)
    found = require_all_passed(run, run.end())
    return "rank paused" if rank is not None else None, found, run


def original_ends(draw, programs, folder, is_long):
    """The process that ranks are copies of ends, or stops, at a random moment. Every case passes."""
    number = draw.choice([signal.SIGKILL, signal.SIGSTOP]) if is_long else signal.SIGKILL
    run = Run(programs, folder, [2, 3], ["--timeout", "60", "--jobs", draw.choice("12")])
    at = time.monotonic() + draw.uniform(0, 0.05)
    is_hit = False
    while run.process.poll() is None and not is_hit:
        original = run.original() if time.monotonic() >= at else None
        is_hit = original is not None and send(original, number)
        time.sleep(0.0005)
    found = require_all_passed(run, run.end())
    return f"the process that ranks are copies of got {number.name}" if is_hit else None, found, run


def launcher_pauses(draw, programs, folder, is_long):
    """The launcher stops for a while. Every case passes."""
    run = Run(programs, folder, [2, 3], ["--timeout", "60", "--jobs", draw.choice("12")])
    time.sleep(draw.uniform(0, 0.1))
    is_hit = send(run.process.pid, signal.SIGSTOP)
    time.sleep(draw.uniform(0, 0.3))
    send(run.process.pid, signal.SIGCONT)
    found = require_all_passed(run, run.end())
    return "launcher paused" if is_hit else None, found, run


def launcher_ends(draw, programs, folder, is_long):
    """The launcher is asked to end. Its report holds what was finished, and no rank lives on."""
    number = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    run = Run(programs, folder, [2, 3], ["--jobs", draw.choice("12")])
    time.sleep(draw.uniform(0, 0.12))
    send(run.process.pid, number)
    code = run.end()
    if code == 0:
        return None, require_all_passed(run, code), run
    report = run.report()
    if code == -number and report is None:  # before its first world
        return f"launcher ended by {number.name}, before its first world", 0, run
    if code != 128 + number:
        raise Broken(f"exit code {code} after {number.name}")
    found = 0
    if report is not None:
        found = check_results(run, report)
        if set(verdicts(report)) - {"passed", "not_run"}:
            raise Broken(f"{number.name} to the launcher became {dict(verdicts(report))}")
    return f"launcher ended by {number.name}", found, run


def launcher_is_killed(draw, programs, folder, is_long):
    """No rank outlives its launcher. `merge` makes a report of what was finished."""
    run = Run(programs, folder, [2, 3], ["--jobs", draw.choice("12")])
    time.sleep(draw.uniform(0, 0.12))
    run.process.kill()
    code = run.end()
    if code == 0:
        return None, require_all_passed(run, code), run
    if not wait_for(lambda: not run.processes(), 10):
        raise Broken(f"the launcher was killed, and processes {run.processes()} live on after 10 s")
    merged = subprocess.run([programs[0], "merge", run.out], capture_output=True, text=True)
    run.output += merged.stdout + merged.stderr
    if not (run.out / "plan.json").exists():
        if merged.returncode != 2:
            raise Broken(f"merge of a run without a plan ended with {merged.returncode}")
        return "launcher killed before it had a plan", 0, run
    of_verdicts = verdicts(run.report())
    # In the case that is cut off, a rank can have passed. Nobody recorded how the ranks ended, even if all had passed.
    without_pass = set(of_verdicts) - {"passed"}
    is_explained = without_pass <= {"disagreed", "not_run"} and of_verdicts["disagreed"] <= len(run.sizes)
    if not is_explained or merged.returncode not in ((5,) if without_pass else (0, 5)):
        raise Broken(f"merge ended with {merged.returncode} and {dict(of_verdicts)}")
    return "launcher killed", check_results(run, run.report()), run


def tmpfs(kibibytes):
    """The part of a shell script that mounts a file system of this size at $SMALL."""
    return f"mount -t tmpfs -o size={kibibytes}k none $SMALL"


def disk_fills_up(draw, programs, folder, is_long):
    """The run's disk is too small. The run says so."""
    place = pathlib.Path(folder) / "small"
    run = Run(programs, folder, [2, 3], small=(place, tmpfs(draw.randrange(4, 1200))))
    code = run.end()
    if code == 0:
        return None, require_all_passed(run, code), run
    if code not in (2, 3) or "No space left on device" not in run.output:
        raise Broken(f"exit code {code} on a full disk")
    return "disk full", 0, run


def shared_memory_fills_up(draw, programs, folder, is_long):
    """/dev/shm is too small, or another process fills it during the run. Cases pass, or the machine is to blame."""
    fill = f"(sleep {draw.uniform(0, 0.1):.3f}; cat /dev/zero > $SMALL/filler 2>/dev/null) &"
    mount = f"{tmpfs(draw.randrange(4, 80 << 10))}; {fill}"
    run = Run(programs, folder, [2, 3], small=(pathlib.Path("/dev/shm"), mount))
    code = run.end()
    if code == 0:
        return "shared memory full or small, and all passed", require_all_passed(run, code), run
    if code != 3:
        raise Broken(f"exit code {code} with little shared memory")
    return "shared memory full", check_results(run, run.report()), run


MOUNTING = [disk_fills_up, shared_memory_fills_up]
DISTURBANCES = [rank_ends] * 8 + [launched_process_ends] * 2 + [
    rank_pauses, original_ends, launcher_pauses, launcher_ends, launcher_is_killed
] + MOUNTING
