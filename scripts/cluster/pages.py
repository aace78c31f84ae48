"""Runs the job scripts of docs/clusters.md as they are on the page: those for Slurm and for a host file."""
import os
import re
import shutil
import subprocess

# Root and a machine with few cores need these of Open MPI. The page says so.
AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def scripts(page):
    return re.findall(r"^```sh\n(#!/bin/bash\n.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def run_jobs(check, page):
    environment = dict(check.environment, PATH=f"{check.launcher.parent}:{os.environ['PATH']}", **AS_ROOT)
    ran = 0
    for text in scripts(page):
        if "#SBATCH" in text:
            nodes = re.search(r"--nodes=(\d+)", text).group(1)
            name, command = f"the page's script for Slurm, nodes: {nodes}", ("sbatch", "-W", "-o", "job.log", "job")
        elif "--hostfile" in text:
            name, command = "the page's script with a host file", ("bash", "job")
        else:
            continue
        ran += 1
        folder = check.folder / f"job {ran}"
        folder.mkdir()
        (folder / "bin").mkdir()
        (folder / "bin/mpirun").symlink_to(shutil.which("mpirun.openmpi"))
        environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
        (folder / "job").write_text(text, encoding="utf-8")
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        log = folder / "job.log"
        said = ended.stdout + ended.stderr + (log.read_text(encoding="utf-8") if log.exists() else "")
        holds = ended.returncode == 0 and (folder / "after/report.json").exists()
        check.expect(name, holds, f"ended with {ended.returncode}:\n{said[-3000:]}")
    check.expect("the page has the scripts", ran == 3)
