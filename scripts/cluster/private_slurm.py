"""A private cluster of Slurm: four nodes that are all this machine."""
import os
import pathlib
import socket
import subprocess
import sys
import time

NODES = 4
CONFIGURATION = """
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool/%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
MailProg=/bin/true
KillWait=5
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Slurm's daemons, in a folder of their own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.daemons = []
        host = socket.gethostname()
        control, *ports = free_ports(1 + NODES)
        text = CONFIGURATION.format(host=host, port=control, folder=folder)
        for node, port in enumerate(ports):
            text += f"NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8\n"
            (self.folder / "spool" / f"n{node}").mkdir(parents=True)
        text += "PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(text)
        # No plugin uses cgroups. A slurmd that looks for their version ends where none are mounted, as in a chroot.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))

    def __enter__(self):
        self.start("slurmctld", "-D", "-c")
        for node in range(NODES):
            self.start("slurmd", "-D", "-N", f"n{node}")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            idle = self.call("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip()
            if idle == str(NODES):
                return self
            time.sleep(0.2)
        self.__exit__()
        ends = [f"{log.name}:\n{log.read_text(errors='replace')[-1000:]}" for log in sorted(self.folder.glob("*.log"))]
        sys.exit("\n".join(["the cluster has not started; the ends of its logs:", *ends]))

    def __exit__(self, *_):
        self.call("scontrol", "shutdown")
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def start(self, *command):
        with open(self.folder / f"{command[0]}.out", "a", encoding="utf-8") as out:
            self.daemons.append(
                subprocess.Popen(command, env=self.environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
            )

    def kill_node(self, node):
        """Kills the daemon of a node."""
        for daemon in self.daemons:
            if daemon.args[-1] == node:
                daemon.kill()

    def call(self, *command, timeout=120):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout)

    def wait_for_no_job(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if not self.call("squeue", "-h").stdout:
                return True
            time.sleep(0.2)
        return False
