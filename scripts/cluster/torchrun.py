"""Runs ranks under the torchrun of PyTorch, where one is installed."""
import shutil


def run(check, build):
    own = build / "pytorch/bin/torchrun"
    torchrun = str(own) if own.exists() else shutil.which("torchrun")
    if not torchrun:
        print("left out: torchrun is not installed; `./run --subject pytorch` installs PyTorch\n")
        return
    cases = ("overlap/training_overlap", "--ranks", "2,4", "--fabric", "shm")
    usual = check.run("without torchrun", *cases)
    under = check.run("torchrun", *cases, launcher=f"{torchrun} --no-python --nproc-per-node {{ranks}}")
    difference = check.difference(usual, under)
    check.expect("ranks of torchrun have the same results", under.code == 0 and not difference, under.text + difference)
    refused = check.run(
        "torchrun mpi", *cases[:3], "--fabric", "mpi", launcher=f"{torchrun} --no-python --nproc-per-node {{ranks}}"
    )
    says = "no MPI has started this process"
    check.expect("--fabric mpi under torchrun is refused", refused.code == 3 and says in refused.text, refused.text)
    print()
