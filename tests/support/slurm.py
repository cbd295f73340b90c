"""A real Slurm for one test: munged, slurmctld and a slurmd for each host, all in a folder of the
test. Hosts are network namespaces; each node's daemon sees its own host name and a hosts file with
all names. Nothing of the machine's own Slurm is read or written."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster import Program, variables_of, wait_for

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "squeue")

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")

CONFIGURATION = """\
ClusterName=ddprun
SlurmctldHost=head({head})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait={kill_wait}
MessageTimeout=60
SlurmdTimeout=300
InactiveLimit=0
BatchStartTimeout=60
JobRequeue=1
MaxArraySize=100
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
GresTypes=gpu
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def skip_without_slurm():
    missing = [name for name in PROGRAMS if shutil.which(name, path=search_path()) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} here; tests/setup installs Slurm")


def search_path():
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def start_munge(cluster, folder):
    """munged requires folders that only its user can write to."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    socket = folder / "munge.socket"
    program = Program(cluster, "munged", [
        "/usr/sbin/munged", "--foreground", "--force", "--key-file", key, "--socket", socket,
        "--pid-file", folder / "munged.pid", "--log-file", folder / "munged.log",
        "--seed-file", folder / "munged.seed", "--num-threads", 4])
    wait_for("munged's socket", socket.exists)
    return program


class Slurm:
    """`names` are the nodes. Each has a host behind the switch, and so has the controller."""

    def __init__(self, cluster, make_hosts, names, cpus=2, gpus=0, proctrack="linuxproc",
                 kill_wait=30):
        skip_without_slurm()
        self.cluster = cluster
        self.folder = Path(cluster.folder, "slurm")
        self.folder.mkdir(mode=0o755)
        (self.folder / "state").mkdir()
        hosts = make_hosts(len(names) + 1)
        self.names = ["head", *names]
        self.hosts = dict(zip(self.names, hosts))
        self.write_files(cpus, gpus, proctrack, kill_wait)
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": search_path()}
        munge = start_munge(cluster, self.folder)
        self.control = self.start("head", "/usr/sbin/slurmctld", "-D", name="slurmctld")
        self.daemons = {name: self.start_node(name) for name in names}
        self.services = [*self.daemons.values(), self.control, munge]
        wait_for("all nodes to be idle", self.all_idle)

    def write_files(self, cpus, gpus, proctrack, kill_wait):
        for name in self.hosts:
            (self.folder / f"spool.{name}").mkdir()
        lines = "".join(f"{host.address} {name}\n" for name, host in self.hosts.items())
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + lines)
        # Slurm needs a device for each GPU, but does not open it.
        gres = [f"Name=gpu File={device}\n" for device in DEVICES[:gpus]]
        (self.folder / "gres.conf").write_text("".join(gres))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        offer = f" Gres=gpu:{gpus}" if gpus else ""
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={host.address} NodeHostname={name} CPUs={cpus} Boards=1 "
            f"SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000{offer}"
            for name, host in self.hosts.items() if name != "head")
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, head=self.hosts["head"].address, nodes=nodes, proctrack=proctrack,
            kill_wait=kill_wait))

    def prefix(self, name):
        """A prefix for commands on a host of this name, which knows the names of the others."""
        script = f'mount --bind {self.folder}/hosts /etc/hosts && hostname {name} && exec "$@"'
        return [*self.hosts[name].prefix, "unshare", "--mount", "--uts", "sh", "-c", script, "sh"]

    def start(self, host, *command, name=None, environment=None, **popen):
        return Program(self.cluster, name or command[0], command, prefix=self.prefix(host),
                       environment={**self.environment, **(environment or {})},
                       cwd=self.cluster.folder, **popen)

    def start_node(self, name):
        return self.start(name, "/usr/sbin/slurmd", "-D", "-N", name, name=f"slurmd-{name}")

    def srun(self, *words, **popen):
        return self.start("head", "srun", *words, name="srun", **popen)

    def ask(self, *command, check=True):
        done = subprocess.run([*self.prefix("head"), *map(str, command)], capture_output=True,
                              text=True, check=False, cwd=self.cluster.folder,
                              env={**os.environ, **self.environment})
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def all_idle(self):
        states = self.ask("sinfo", "--noheader", "--Node", "-o", "%T", check=False).split()
        return len(states) == len(self.names) - 1 and set(states) == {"idle"}

    def tasks(self):
        """The live processes that jobs have started on any node: {pid: command line}."""
        own = {program.pid for program in self.cluster.programs}
        return {pid: line for pid, line in self.cluster.marked().items()
                if pid not in own and not line.startswith("slurm")}

    def lose(self, name):
        """Cuts the node off from the network, and kills its processes. Slurm would notice that when
        its SlurmdTimeout is over, which a short one would be for any node that has to wait for a
        processor: `tell_of_loss` lets it know."""
        self.hosts[name].cut()
        self.daemons[name].kill()
        for pid in self.cluster.marked():
            if f"SLURMD_NODENAME={name}".encode() in variables_of(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def tell_of_loss(self, name):
        """As an administrator does; then Slurm treats its jobs as when it has noticed by itself."""
        self.ask("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=lost")

    def close(self):
        """Kills the services, because a slurmd that is asked to end waits for the daemons of its
        steps."""
        for program in self.services:
            if program.running():
                program.kill(signal.SIGKILL)
            program.wait()
        steps = [pid for pid, line in self.cluster.marked().items() if line.startswith("slurm")]
        for pid in steps:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for("Slurm to be gone", lambda: not set(steps) & set(self.cluster.marked()))
