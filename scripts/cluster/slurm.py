"""Checks runs under `srun`: verdicts, wrong commands, and what a cancelled job, Ctrl-C and dead processes leave."""
import os
import signal

from cluster.check import parent_of, ranks_that_wait
from cluster.kills import CASES, VERDICTS

SRUN = "srun -n {ranks}"


def same_verdicts(check):
    cases = ("good", "many", "bad/check", "bad/killed", "bad/segfault", "bad/hangs", "--timeout", "2")
    options = ("--worker", check.trouble)
    own = check.run("own", *cases, *options)
    under = check.run("under srun", *cases, *options, launcher=SRUN)
    same = (own.code, own.verdicts()) == (under.code, under.verdicts())
    check.expect("verdicts and exit code as without srun", same, own.text + under.text)
    difference = check.difference(own, under)
    check.expect("diff finds no difference", not difference, difference)


def one_size_on_four_nodes(check):
    four = check.run("nodes", "overlap/training_overlap", "--ranks", "4", launcher="srun -N4 -n4")
    says = "rank 0 is on n0, rank 1 is on n1, rank 2 is on n2, rank 3 is on n3; the fabric shm reaches one host"
    check.expect("shared memory does not reach four nodes", four.code == 3 and says in four.text, four.text)
    one = check.run("node", "overlap/training_overlap", "--ranks", "4", launcher="srun -N1 -n4")
    check.expect("four ranks on one node", one.code == 0 and set(one.verdicts().values()) == {"passed"}, one.text)
    stays = ("good/stays[W=2]", "--worker", check.trouble)
    wrong = check.run("wrong", *stays, "--ranks", "2", launcher="srun -N4 -n4")
    says = "the command started 4 ranks, the world has 2"
    check.expect("a wrong number of ranks is refused", wrong.code == 3 and says in wrong.text, wrong.text)
    batch = check.run("batch", *stays, launcher="sbatch -n {ranks}")
    says = "before it started ranks 0, 1"
    check.expect("sbatch is refused", batch.code == 3 and says in batch.text, batch.text)
    messages = check.run("no MPI", *stays, "--fabric", "mpi", launcher=SRUN)
    says = "no MPI has started this process"
    check.expect("--fabric mpi without an MPI is refused", messages.code == 3 and says in messages.text, messages.text)


def ends(check, cluster):
    def kill_rank(_, folder):
        os.kill(ranks_that_wait(folder, 2)[1], signal.SIGKILL)

    def kill_guard(_, folder):
        os.kill(parent_of(ranks_that_wait(folder, 2)[1]), signal.SIGKILL)

    def cancel(_, folder):
        ranks_that_wait(folder, 2)
        cluster.call("scancel", "-u", "root")

    def interrupt(process, folder):
        ranks_that_wait(folder, 2)
        process.send_signal(signal.SIGINT)

    def kill_launcher(process, folder):
        ranks_that_wait(folder, 2)
        process.kill()

    for name, srun, act, code, verdicts in (
        ("a killed rank", SRUN, kill_rank, 4, VERDICTS),
        ("a killed guard", SRUN, kill_guard, 4, VERDICTS),
        ("a killed guard, and srun ends its step", "srun -K1 -n {ranks}", kill_guard, 4, VERDICTS),
        ("a job that is cancelled", SRUN, cancel, 4, VERDICTS),
        ("Ctrl-C", SRUN, interrupt, 130, None),
        ("a killed launcher", SRUN, kill_launcher, -9, None),
    ):
        result = check.run(name, *CASES, "--worker", check.trouble, launcher=srun, meanwhile=act)
        holds = result.code == code and (verdicts is None or result.verdicts() == verdicts)
        check.expect(name, holds, f"{result.code} {result.verdicts()}\n{result.text}")
        check.expect("  no job is left", cluster.wait_for_no_job(), cluster.call("squeue").stdout)
