"""Runs ranks under the torchrun of PyTorch, where one is installed."""
import shutil


def run(check, build):
    own = build / "pytorch/bin/torchrun"
    torchrun = str(own) if own.exists() else shutil.which("torchrun")
    if not torchrun:
        print("left out: torchrun is not installed; `./run --subject pytorch` installs PyTorch\n")
        return
    cases = ("overlap/training_overlap", "--ranks", "2,4")
    launcher = f"{torchrun} --no-python --nproc-per-node {{ranks}}"
    usual = check.run("without torchrun", *cases)
    for fabric in ("shm", "tcp"):
        under = check.run(f"torchrun {fabric}", *cases, "--fabric", fabric, launcher=launcher)
        difference = check.difference(usual, under)
        same = under.code == 0 and not difference
        check.expect(f"ranks of torchrun have the same results, fabric {fabric}", same, under.text + difference)
    refused = check.run("torchrun mpi", *cases, "--fabric", "mpi", launcher=launcher)
    says = "no MPI has started this process"
    check.expect("--fabric mpi under torchrun is refused", refused.code == 3 and says in refused.text, refused.text)
    print()
