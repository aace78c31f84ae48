"""Checks that verdicts on PyTorch do not depend on the kernels that its libraries choose. Plays the suites under
settings of MKL, ATen and OpenMP.

usage: pytorch_settings.py ROOT [--all]

Without --all, it plays four settings, which together have each value of each variable. Prints a table. Ends with 1 if
verdicts differ.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MODES, CAPABILITIES, THREADS = (None, "COMPATIBLE", "AVX2", "AVX512"), ("default", "avx2", "avx512"), ("1", "2")
NAMES = ("MKL_CBWR", "ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS")
UNSET = (None, None, None)
COVER = (UNSET, ("COMPATIBLE", "default", "2"), ("AVX2", "avx2", "1"), ("AVX512", "avx512", "2"))

# MKL calls this function to find out whether the processor is from Intel. It has other kernels for other processors.
AS_INTEL = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"

PROBE = """
import torch
a = torch.ones(64, 64)
(a @ a + a).sum()
print("ATen:" + torch.backends.cpu.get_cpu_capability())
"""


def environment(setting, preloaded=None):
    changed = {name: value for name, value in os.environ.items() if name not in NAMES and name != "MKL_NUM_THREADS"}
    changed |= {name: value for name, value in zip(NAMES, setting) if value}
    if setting[2]:
        changed["MKL_NUM_THREADS"] = setting[2]
    if "SHARDPROOF_PYTORCH" in changed:
        changed["SHARDPROOF_PYTORCH"] = str(pathlib.Path(changed["SHARDPROOF_PYTORCH"]).absolute())
    return changed | ({"LD_PRELOAD": str(preloaded)} if preloaded else {})


def effect(variables):
    """The mode of MKL and the kernels of ATen, from the libraries, or None if this processor cannot run them."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROBE],
        env=variables | {"MKL_VERBOSE": "1"},
        text=True,
        capture_output=True,
    )
    mode, kernels = re.search(r"CNR:(\w+)", done.stdout), re.search(r"ATen:(.*)", done.stdout)
    return f"MKL {mode[1]}, ATen {kernels[1]}" if done.returncode == 0 and mode and kernels else None


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    features = set((re.search(r"^flags\s*: (.*)", text, flags=re.M) or [""])[0].split())
    name = re.search(r"^model name\s*: (.*)", text, flags=re.M)
    return (name[1] if name else "unknown processor"), [one for one in ("avx2", "fma", "avx512f") if one in features]


def preload(folder):
    """A library that makes MKL treat the processor as an Intel processor, or None without a compiler."""
    source, library = folder / "as_intel.c", folder / "as_intel.so"
    source.write_text(AS_INTEL, encoding="utf-8")
    try:
        return library if subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source]).returncode == 0 else None
    except FileNotFoundError:
        return None


class Plays:
    def __init__(self, root, folder):
        self.root, self.folder, self.first, self.failed = root, folder, None, False

    def verdicts(self, variables):
        """The verdict of each case, and the finished process. Two ranks suffice: more do not change kernels."""
        out = self.folder / "run"
        shutil.rmtree(out, ignore_errors=True)
        command = [
            self.root / "build/bin/shardproof",
            "run",
            "--subject",
            "pytorch",
            "--quiet",
            "--ranks",
            "1,2",
            "--profile",
            "eager",
            "--waivers",
            self.root / "fixtures/pytorch/waivers.json",
            "--out",
            out,
        ]
        # In this folder, so that the user's link shardproof-out/latest does not point to a deleted run.
        done = subprocess.run(command, env=variables, cwd=self.folder, text=True, capture_output=True)
        if not (out / "report.json").exists():
            sys.exit(f"pytorch_settings: the run wrote no report; its output:\n{done.stdout}{done.stderr}")
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        return {case["id"]: case["verdict"] for case in report["cases"]}, done

    def play(self, name, variables):
        found = effect(variables)
        if found is None:
            print(f"{name:<66} not played: this processor or this PyTorch cannot run it", flush=True)
            return
        verdicts, done = self.verdicts(variables)
        if self.first is None:
            self.first = verdicts
        others = sorted(
            case for case in self.first.keys() | verdicts.keys() if self.first.get(case) != verdicts.get(case)
        )
        summary = f"{len(verdicts)} cases, " + (f"{len(others)} verdicts differ" if others else "the same verdicts")
        print(f"{name:<66} {found:<30} {summary}", flush=True)
        for case in others:
            print(f"  {case}: {self.first.get(case)} before, {verdicts.get(case)} now")
        if others or done.returncode != 0:
            self.failed = True
            print(f"the run ended with exit code {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")


def label(setting):
    return " ".join(f"{name}={value}" for name, value in zip(NAMES, setting) if value) or "nothing set"


def main(root, is_all):
    settings = [UNSET, *itertools.product(MODES, CAPABILITIES, THREADS)] if is_all else COVER
    name, features = processor()
    print(f"{name}; it has {', '.join(features) or 'neither AVX2 nor AVX-512'}")
    print("MKL AUTO: MKL does not have the mode for this processor, and chooses another one")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        plays = Plays(root, folder)
        for setting in settings:
            plays.play(label(setting), environment(setting))
        is_own = (effect(environment(("AVX512", None, None))) or "").startswith("MKL AVX512")
        library = None if is_own else preload(folder)
        for mode in (None, "AVX2") if library else ():
            plays.play(
                f"{label((mode, None, None))}, MKL as on an Intel processor", environment((mode, None, None), library)
            )
    return 1 if plays.failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), "--all" in sys.argv[2:]))
