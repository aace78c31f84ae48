#!/usr/bin/env python3
"""Tests ./gpu-check with the CPU in place of a GPU: it runs every step, goes on after a failed step, finds libraries,
and reports its results.

    gpu_check_test.py ROOT BUILD CC
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT, BUILD, CC = (pathlib.Path(argument) for argument in sys.argv[1:4])
PROGRAMS = ("shardproof", "shardproof-worker", "device_contract", "bench-gpu_limits")
CPU_BACKEND = "lib/libshardproof_cpu_vendor.so"
BACKEND = "lib/shardproof/libshardproof_cuda.so"
SANITIZERS = ("memcheck", "racecheck", "initcheck")
STEPS = [
    "doctor",
    "contract_1_rank",
    "contract_2_ranks",
    "suites_1_rank",
    "timeline",
    "limits",
    *SANITIZERS,
    "overlap_1_rank",
    "suites_2_ranks",
    "overlap_2_ranks",
]


class GpuCheck(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.prebuilt = self.scratch / "prebuilt"
        (self.prebuilt / "bin").mkdir(parents=True)
        (self.prebuilt / BACKEND).parent.mkdir(parents=True)
        for program in PROGRAMS:
            (self.prebuilt / "bin" / program).symlink_to(BUILD / "bin" / program)
        (self.prebuilt / CPU_BACKEND).symlink_to(BUILD / CPU_BACKEND)
        self.out = self.scratch / "out"

    def command(self, *options):
        return [ROOT / "gpu-check", "--prebuilt", self.prebuilt, "--out", self.out, *options]

    def gpu_check(self, *options, **environment):
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "NCCL_", "LD_"))
        }
        return subprocess.run(
            self.command(*options),
            capture_output=True,
            text=True,
            cwd=self.scratch,
            timeout=300,
            env={**inherited, **environment},
            check=False,
        )

    def results(self):
        rows = [
            line.strip("| ").split(" | ")
            for line in (self.out / "summary.md").read_text().splitlines()
            if line.startswith("| ")
        ]
        return {row[0]: row[1] for row in rows[1:]}

    def script(self, path, text):
        path.unlink(missing_ok=True)
        path.write_text("#!/usr/bin/env bash\n" + text)
        path.chmod(0o755)

    def shared_object(self, path, text, *options):
        source = self.scratch / "source.c"
        source.write_text(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([CC, "-x", "c", "-shared", "-fPIC", source, "-x", "none", "-o", path, *options], check=True)

    def test_a_dry_run_runs_the_steps_that_need_no_gpu_and_packs_results(self):
        ended = self.gpu_check("--dry-run")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.results(), {step: "skipped" if step in SANITIZERS else "passed" for step in STEPS})
        summary = (self.out / "summary.md").read_text()
        self.assertIn("# gpu-check: 9 passed, 0 failed, 3 skipped", summary)
        self.assertIn("The results say nothing about a GPU", summary)
        for line in (
            "measured_forward_backward_us: 245000.0 us",
            "expected_forward_us: 85000.0 us",
            "forward_margin: 1.0 x",
        ):
            self.assertIn(f"    {line}\n", summary)
        with tarfile.open(f"{self.out}.tar.gz") as archive:
            names = archive.getnames()
            report = json.load(archive.extractfile("out/runs/contract_2_ranks/report.json"))
            timeline = json.load(archive.extractfile("out/runs/timeline/report.json"))
            limits = json.load(archive.extractfile("out/logs/limits.log"))
        for name in (
            "summary.md",
            "machine.txt",
            "versions.json",
            "logs/doctor.log",
            "runs/overlap_1_rank/report.json",
        ):
            self.assertIn(f"out/{name}", names)
        self.assertEqual(report["worlds"][0]["device"], "cuda")
        self.assertTrue(report["worlds"][0]["unfit_for_timing"])
        self.assertGreater(report["summary"]["passed"], 0)
        self.assertEqual({world["times"] for world in timeline["worlds"]}, {"cupti"})
        self.assertEqual(timeline["summary"]["passed"], timeline["summary"]["cases"])
        self.assertIn("meaningless", limits)

    def test_steps_go_on_after_a_failed_step(self):
        self.script(self.prebuilt / "bin/device_contract", "echo 'it is broken today' >&2; exit 1\n")
        ended = self.gpu_check("--dry-run")
        self.assertEqual(ended.returncode, 1, ended.stderr)
        expected = {
            "contract_1_rank": "failed",
            "contract_2_ranks": "failed",
            "overlap_1_rank": "passed",
            "overlap_2_ranks": "passed",
            "timeline": "failed",
            "limits": "passed",
        }
        self.assertEqual({step: result for step, result in self.results().items() if step in expected}, expected)
        self.assertIn("3 failed", ended.stderr)
        self.assertTrue(pathlib.Path(f"{self.out}.tar.gz").exists())

    def test_chosen_steps_run_alone_and_in_their_order(self):
        ended = self.gpu_check("--dry-run", "--steps", "limits,doctor")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(list(self.results().items()), [("limits", "passed"), ("doctor", "passed")])

    def test_an_unknown_step_is_refused_with_all_names(self):
        for steps in ("limits,doktor", ""):
            ended = self.gpu_check("--dry-run", "--steps", steps)
            self.assertEqual(ended.returncode, 2)
            self.assertIn(" ".join(STEPS), ended.stderr)

    def test_ranks_that_share_a_gpu_are_separate_hosts_to_nccl(self):
        hosts = self.scratch / "hosts"
        self.script(self.prebuilt / "bin/device_contract", f"""
if [[ ${{NCCL_HOSTID:-}} ]]; then echo "$NCCL_HOSTID" >>{hosts}; fi
exec {BUILD}/bin/device_contract "$@"
""")
        self.assertEqual(self.gpu_check("--dry-run").returncode, 0)
        named = hosts.read_text().split()
        # Two worlds have two ranks each: the contract's and the timeline's.
        self.assertEqual((len(named), len(set(named))), (4, 4))

    def test_a_signal_stops_the_step_and_keeps_earlier_results(self):
        started = self.scratch / "started"
        self.script(self.prebuilt / "bin/device_contract", f"""
if [[ ${{1:-}} == --list-json ]]; then echo $$ >{started}; exec sleep 100; fi
exec {BUILD}/bin/device_contract "$@"
""")
        running = subprocess.Popen(
            self.command("--dry-run"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        while not started.exists() or not started.read_text().strip():
            self.assertIsNone(running.poll(), "gpu-check ended before the step started")
            time.sleep(0.02)
        running.terminate()
        output = running.communicate(timeout=60)[1]
        self.assertEqual(running.returncode, 128 + signal.SIGTERM, output)
        self.assertEqual(self.results()["stopped"], "failed")
        self.assertEqual(self.results()["doctor"], "passed")
        self.assertTrue(pathlib.Path(f"{self.out}.tar.gz").exists())
        self.assertFalse(pathlib.Path(f"/proc/{started.read_text().strip()}").exists(), "the step still runs")

    def test_findings_of_the_sanitizer_are_failures(self):
        (self.prebuilt / BACKEND).symlink_to(BUILD / CPU_BACKEND)
        tools = self.scratch / "tools"
        tools.mkdir()
        self.script(tools / "compute-sanitizer", """
[[ $1 == --tool && $3 == --error-exitcode && $5 == --log-file ]] || exit 99
echo "rank $SHARDPROOF_RANK" >"$6"
"${@:7}" || exit
[[ $2 != racecheck ]] || exit "$4"
""")
        ended = self.gpu_check(PATH=f"{tools}:{os.environ['PATH']}")
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertEqual(self.results(), dict.fromkeys(STEPS, "passed") | {"racecheck": "failed"})
        self.assertEqual((self.out / "logs/memcheck.sanitizer.log").read_text(), "rank 0\n")

    def test_cupti_is_found_where_the_other_libraries_are_and_without_it_the_timeline_is_skipped(self):
        wheels = self.scratch / "venv/lib/python3.11/site-packages/nvidia"
        cublas, cupti = wheels / "cublas/lib/libcublas.so.99", wheels / "cuda_cupti/lib/libcupti.so.99"
        for library in (cublas, cupti):
            self.shared_object(library, "", f"-Wl,-soname,{library.name}")
        cpu_backend = BUILD / CPU_BACKEND
        self.shared_object(
            self.prebuilt / BACKEND, "", "-Wl,--no-as-needed", cpu_backend, cublas, f"-Wl,-rpath,{cpu_backend.parent}"
        )
        self.script(self.prebuilt / "bin/device_contract", f"""
[[ ${{1:-}} == --list-gpus && :$LD_LIBRARY_PATH: != *:{cupti.parent}:* ]] || exec {BUILD}/bin/device_contract "$@"
{BUILD}/bin/device_contract "$@" | sed 's/}}$/,"why_no_records":"it is nowhere"}}/'
""")
        self.script(self.prebuilt / "bin/shardproof-worker", "exit 1\n")  # this test needs no suites
        self.gpu_check(VIRTUAL_ENV=str(self.scratch / "venv"))
        self.assertEqual(self.results()["timeline"], "passed")
        cupti.unlink()
        self.out = self.scratch / "again"
        self.gpu_check(VIRTUAL_ENV=str(self.scratch / "venv"))
        self.assertEqual(self.results()["timeline"], "skipped")
        self.assertIn("it is nowhere", (self.out / "summary.md").read_text())

    def test_a_backend_that_cannot_be_used_ends_it_with_the_reason(self):
        self.shared_object(self.prebuilt / BACKEND, """
            const void* shardproof_vendor_tables(const char** why) { *why = "no GPU today"; return 0; }""")
        ended = self.gpu_check()
        self.assertEqual(ended.returncode, 3)
        self.assertIn("no GPU today", ended.stderr)
        reports_no_gpu = ended.stderr.startswith("shardproof: this machine seems to have no GPU")
        self.assertNotEqual(reports_no_gpu, bool(list(pathlib.Path("/dev").glob("nvidia[0-9]*"))))
        self.assertFalse((self.out / "summary.md").exists())

    def test_libraries_are_found_in_the_wheels_of_a_python(self):
        library = self.scratch / "venv/lib/python3.11/site-packages/nvidia/nowhere/lib/libnowhere.so.1"
        self.shared_object(library, "int nowhere(void) { return 1; }", "-Wl,-soname,libnowhere.so.1")
        self.shared_object(self.prebuilt / BACKEND, """
            int nowhere(void);
            const void* shardproof_vendor_tables(const char** why) {
              *why = nowhere() ? "it was found" : "";
              return 0;
            }""", library)
        lacking = self.gpu_check()
        self.assertEqual(lacking.returncode, 3)
        self.assertIn("the backend needs libnowhere.so.1", lacking.stderr)
        self.assertIn("it was found", self.gpu_check(VIRTUAL_ENV=str(self.scratch / "venv")).stderr)

    def test_a_missing_program_is_named(self):
        (self.prebuilt / "bin/device_contract").unlink()
        ended = self.gpu_check("--dry-run")
        self.assertEqual(ended.returncode, 3)
        self.assertIn("lacks bin/device_contract: ./gpu-check --pack makes", ended.stderr)

    def test_a_package_works_like_a_folder(self):
        package = self.scratch / "package.tar.gz"
        with tarfile.open(package, "w:gz", dereference=True, compresslevel=1) as archive:
            archive.add(self.prebuilt, "shardproof-gpu-check")
        shutil.rmtree(self.prebuilt)
        self.prebuilt = package
        ended = self.gpu_check("--dry-run")
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_a_package_has_every_library_that_a_bare_machine_lacks(self):
        package = self.scratch / "package.tar.gz"
        subprocess.run([ROOT / "gpu-check", "--prebuilt", BUILD, "--pack", package], check=True, capture_output=True)
        subprocess.run(["tar", "-C", self.scratch, "-xzf", package], check=True)
        unpacked = self.scratch / "shardproof-gpu-check"
        for program in PROGRAMS:
            loaded = subprocess.run(
                ["ldd", unpacked / "bin" / program], capture_output=True, text=True, check=True
            ).stdout
            needed = dict(re.findall(r"(\S+)\.so\S* => (\S+)", loaded))
            self.assertIn("libc", needed)
            for name in needed.keys() - {"libc", "libm", "libgcc_s"}:
                self.assertIn(unpacked, pathlib.Path(needed[name]).resolve().parents, name)

    def test_archives_become_a_page_that_names_each_step_and_each_failed_case(self):
        self.assertEqual(self.gpu_check("--dry-run", "--steps", "contract_1_rank,limits").returncode, 0)
        self.script(self.prebuilt / "bin/device_contract", f"""
[[ ! ${{SHARDPROOF_RANK:-}} ]] || kill -KILL $$
exec "{BUILD}/bin/device_contract" "$@"
""")
        first, self.out = self.out, self.scratch / "second"
        self.assertEqual(self.gpu_check("--dry-run", "--steps", "contract_1_rank").returncode, 1)
        read = subprocess.run(
            [ROOT / "gpu-check", "--read", f"{first}.tar.gz", f"{self.out}.tar.gz"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertRegex(read.stdout, r"\| contract_1_rank \| 1 \| passed \| \d+ \| \d+ cases in 1 world: ")
        self.assertRegex(read.stdout, r"\| limits \| 1 \| passed ")
        self.assertRegex(read.stdout, r"\| contract_1_rank \| 2 \| failed ")
        self.assertRegex(read.stdout, r"\| `contract/\w+\[.*\]` \| contract_1_rank \| 2 \| crashed \|")
        self.assertRegex(read.stdout, r"\| launch / call \| \d+ ns ")
        self.assertRegex(read.stdout, r"\| .*timeline.* \| \d+ \|", "the reason of skipped cases")

    def test_a_file_without_results_is_refused(self):
        damaged = self.scratch / "damaged.tar.gz"
        damaged.write_text("no archive")
        with tarfile.open(self.scratch / "other.tar.gz", "w:gz") as archive:
            archive.add(damaged, "folder/other")
        for file in (damaged, self.scratch / "other.tar.gz", self.scratch / "nowhere.tar.gz"):
            read = subprocess.run(
                [ROOT / "gpu-check", "--read", file], capture_output=True, text=True, check=False
            )
            self.assertEqual((read.returncode, read.stdout), (2, ""))
            self.assertIn(f"{file}: ", read.stderr)
            self.assertIn("an archive that ./gpu-check wrote", read.stderr)

    def test_wrong_usage_ends_with_2(self):
        self.assertEqual(self.gpu_check("--quickly").returncode, 2)
        self.out.mkdir()
        (self.out / "mine").touch()
        self.assertEqual(self.gpu_check("--dry-run").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
