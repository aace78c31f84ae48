"""Runs ranks under other launchers. scripts/cluster-test starts it, and says what it does."""
import argparse
import pathlib
import random
import signal
import sys
import tempfile
import time

from cluster import fabrics, hosts, kills, pages, slurm, torchrun
from cluster.check import Check
from cluster.private_slurm import Cluster


def main():
    parser = argparse.ArgumentParser(prog="scripts/cluster-test", allow_abbrev=False)
    parser.add_argument("root", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the moments of kills")
    given = parser.parse_args()
    build = given.root / "build"
    # Runs inherit it. A shell starts this script without SIGINT if it runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardproof-cluster-") as name:
        folder = pathlib.Path(name)
        check = Check(folder, build)
        runs = fabrics.compare(check)
        torchrun.run(check, build)
        with Cluster(folder / "slurm") as cluster:
            check.environment = cluster.environment
            kills.kill_each(check, cluster, given.seed)
            slurm.same_verdicts(check)
            slurm.one_size_on_four_nodes(check)
            slurm.ends(check, cluster)
            pages.run_jobs(check, given.root / "docs/clusters.md")
            hosts.four_nodes_without_mpi(check, given.root, runs[8])
            hosts.four_nodes(check, cluster, runs[8])  # the last check: it loses a node
    failures = f"{check.failures} expectations do not hold" if check.failures else "all expectations hold"
    print(f"\n{failures}; {time.monotonic() - began:.0f} s")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
