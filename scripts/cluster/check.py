"""Runs shardproof, and counts expectations that do not hold."""
import ctypes
import errno
import json
import os
import pathlib
import re
import socket
import subprocess
import time

OPEN_MPI = "mpirun.openmpi --allow-run-as-root --oversubscribe -n {ranks}"
MPICH = "mpirun.mpich -n {ranks}"


def status_of(process, field):
    try:
        with open(f"/proc/{process}/status", encoding="utf-8") as status:
            found = re.search(rf"^{field}:\t(\S+)", status.read(), re.M)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return found and found[1]


def parent_of(process):
    return int(status_of(process, "PPid"))


def is_gone(process):
    return status_of(process, "State") in (None, "Z")


def cut_connections(process):
    """Shuts down both directions of each TCP connection of a process."""
    pidfd_getfd = 438  # the same number on each architecture
    handle = os.pidfd_open(process)
    try:
        for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
            try:
                if not os.readlink(link).startswith("socket:"):
                    continue
            except FileNotFoundError:
                continue  # the process has closed it meanwhile
            copy = ctypes.CDLL(None, use_errno=True).syscall(pidfd_getfd, handle, int(link.name), 0)
            if copy < 0 and ctypes.get_errno() == errno.EBADF:
                continue
            if copy < 0:
                raise OSError(ctypes.get_errno(), f"cannot copy descriptor {link.name} of process {process}")
            with socket.socket(fileno=copy) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                    try:
                        one.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass  # the socket listens, or the other side has ended the connection
    finally:
        os.close(handle)


def wait_for(found, seconds=60):
    """The first result that is true, or None after this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = found()
        if result:
            return result
        time.sleep(0.02)
    return None


def ranks_that_wait(folder, count):
    """The processes of `count` ranks, by rank, once all of them have come to the case that waits."""

    def look():
        found = {}
        for log in folder.glob("worlds/0/logs/rank-*.err"):
            match = re.search(r"^here (\d+)$", log.read_text(encoding="utf-8"), re.M)
            if match:
                found[int(log.stem.removeprefix("rank-"))] = int(match[1])
        return found if len(found) == count else None

    ranks = wait_for(look)
    assert ranks, "no rank came to the case that waits"
    return ranks


class Result:
    """A run that has ended."""

    def __init__(self, folder, code, text):
        self.folder, self.code, self.text = folder, code, text
        report = folder / "report.json"
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {"cases": [], "worlds": []}
        self.cases = {case["id"]: case for case in found["cases"] if not case.get("superseded")}
        self.worlds = found["worlds"]

    def verdicts(self):
        return {name: case["verdict"] for name, case in self.cases.items()}

    def outcomes(self):
        """The verdict and each rank's outcome of the cases that ran."""
        return {
            name: [case["verdict"], *(rank["outcome"] for rank in case["ranks"])]
            for name, case in self.cases.items()
            if case["verdict"] != "skipped"
        }


class Check:
    """Expectations about runs, which are in folders of one temporary folder."""

    def __init__(self, folder, build, environment=None):
        self.folder = folder
        self.launcher = build / "bin/shardproof"
        self.trouble = build / "bin/trouble_program"
        self.environment = environment or dict(os.environ)
        self.failures = 0

    def expect(self, what, holds, context=""):
        print(f"{'ok  ' if holds else 'FAIL'} {what}", flush=True)
        if not holds:
            self.failures += 1
            print(context, flush=True)
        return holds

    def start(self, name, *arguments, launcher=None):
        """A run of the suite, unless the arguments name a worker."""
        folder = self.folder / re.sub(r"\W+", "_", name)
        under = ["--launcher", launcher] if launcher else []
        command = [self.launcher, "run", *arguments, *under, "--out", folder, "--overwrite"]
        return folder, subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, name, *arguments, launcher=None, meanwhile=None, timeout=240):
        folder, process = self.start(name, *arguments, launcher=launcher)
        try:
            if meanwhile:
                meanwhile(process, folder)
            text = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            text = f"after {timeout} s:\n{process.communicate()[0]}"
        except BaseException:
            process.terminate()
            process.communicate()
            raise
        return Result(folder, process.returncode, text)

    def difference(self, one, other):
        """The output of `shardproof diff` for two runs that differ, or nothing."""
        command = [self.launcher, "diff", one.folder, other.folder]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return "" if found.returncode == 0 else found.stdout + found.stderr
