"""One command that starts a job on many hosts: `ddprun -H` against `mpirun -H` and against torchrun
by a loop of ssh, and `srun ddprun` against `srun torchrun`.

Hosts are network namespaces of this machine, each with a host name and an sshd of its own; Slurm is
a real one (tests/support/slurm.py). Each host has one rank, `sh -c 'echo up; exec sleep 1000'`.
Measured are the seconds from the command to the first line of every rank, and from SIGTERM to the
command until nothing of the job is left on any host. The launchers take turns.

Run it by `tests/benchmark/run hosts`, never beside tests. `--hosts 2,8,32` and `--rounds 3` choose;
`--torchrun-hosts 8` is the most that torchrun, with 3 s of processor time for each, is asked for.
"""

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from _pytest.outcomes import Skipped  # noqa: E402

from tests.support.cluster import BIN, Cluster  # noqa: E402
from tests.support.hosts import Switch, available  # noqa: E402
from tests.support.slurm import Slurm  # noqa: E402
from tests.support.sshd import SshNet  # noqa: E402

RANK = "echo up; exec sleep 1000"
TORCHRUN = ROOT / ".venv/bin/torchrun"
START_LIMIT = 300
END_LIMIT = 30
# A person who types such a loop would have it end its ssh processes, too.
LOOP = """trap 'kill $(jobs -p); wait; exit 143' TERM
for host in {hosts}; do ssh -F {config} "$host" {command} & done
wait
"""


def spaces_of(hosts):
    """The network namespaces of these processes, as /proc names them."""
    return {os.stat(f"/run/netns/{host.name}").st_ino for host in hosts}


def inside(spaces, but):
    """The processes of these hosts that were not there before."""
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            is_there = entry.name.isdigit() and os.stat(entry / "ns/net").st_ino in spaces
            if is_there and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.add(int(entry.name))
    return found - but


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def measure(line, ranks, spaces, before, environment=None, cwd=None):
    """The seconds until all ranks are up, and until nothing is left; None: not in time."""
    begin = time.perf_counter()
    command = subprocess.Popen([str(word) for word in line], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env={**os.environ, **(environment or {})}, cwd=cwd)
    # This ends all of them: processes that live on, such as the ssh processes of a loop, would keep
    # the output open for ever.
    limit = threading.Timer(START_LIMIT, lambda: kill_all(inside(spaces, before)))
    limit.start()
    up = 0
    for text in command.stdout:
        up += "up" in text.split()
        if up == ranks:
            break
    started = time.perf_counter() - begin
    limit.cancel()
    begin = time.perf_counter()
    with contextlib.suppress(ProcessLookupError):
        command.send_signal(signal.SIGTERM)
    while inside(spaces, before) and time.perf_counter() - begin < END_LIMIT:
        command.poll()
        time.sleep(0.01)
    ended = time.perf_counter() - begin
    left = inside(spaces, before)
    kill_all(left)
    command.kill()
    command.wait()
    if up < ranks:
        return None, None
    return started, (None if left else ended)


def shown(times):
    if any(one is None for one in times):
        limit = [one for one in times if one is not None]
        return f"not in time ({len(limit)} of {len(times)} were)"
    return f"{statistics.median(times):.2f} s"


def alternate(launchers, rounds, ranks, spaces, before, **more):
    """Runs `launchers`, {name: line}, alternately, each of them `rounds` times."""
    seen = {name: [] for name in launchers}
    for _ in range(rounds):
        for name, line in launchers.items():
            seen[name].append(measure(line, ranks, spaces, before, **more))
    for name, times in seen.items():
        starts, ends = zip(*times)
        print(f"  {ranks:>2} hosts  {name:<14} up after {shown(starts):<10} nothing left after "
              f"{shown(ends)}", flush=True)


def torchrun_words(ranks, endpoint):
    return [TORCHRUN, "--nnodes", ranks, "--nproc-per-node", 1, "--rdzv-backend", "c10d",
            "--rdzv-endpoint", endpoint, "--rdzv-id", "job", "--no-python", "sh", "-c", RANK]


def quoted(words):
    return " ".join("'" + str(word).replace("'", "'\\''") + "'" for word in words)


def named(cluster, name):
    """The beginning of a command that runs on a machine of this name, which can resolve the other
    names, as launchers expect."""
    script = f'mount --bind {cluster.folder}/names /etc/hosts && hostname {name} && exec "$@"'
    return ["unshare", "--mount", "--uts", "sh", "-c", script, "sh"]


def write_names(cluster, hosts):
    lines = [f"{host.address} node{number}\n" for number, host in enumerate(hosts)]
    (cluster.folder / "names").write_text("127.0.0.1 localhost\n" + "".join(lines))


def over_ssh(cluster, net, hosts):
    """Each launcher's command line on the first host."""
    names = [host.address for host in hosts[1:]]
    config = net.folder / "config"
    command = quoted([quoted(torchrun_words(len(names), f"{names[0]}:29400"))])
    loop = LOOP.format(hosts=" ".join(names), config=config, command=command)
    lines = {"ddprun -H": [BIN / "ddprun", "-H", ",".join(names), "--ssh-args", f"-F {config}",
                           "--no-python", "sh", "-c", RANK]}
    if shutil.which("mpirun.openmpi"):
        lines["mpirun -H"] = [
            "mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent",
            f"ssh -F {config}", "--mca", "orte_tmpdir_base", cluster.folder, "-H",
            ",".join(f"{name}:1" for name in names), "sh", "-c", RANK]
    else:
        print("  left out: there is no mpirun.openmpi here (Debian's package openmpi-bin)")
    if TORCHRUN.exists():
        lines["torchrun, ssh"] = ["bash", "-c", loop]
    else:
        print(f"  left out: there is no {TORCHRUN} (./tests/setup)")
    prefix = [*hosts[0].prefix, *named(cluster, "node0")]
    return {name: [*prefix, *line] for name, line in lines.items()}


def compare_over_ssh(count, rounds, torchrun_most):
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)
        switch = Switch(count + 1)
        cluster.hosts.append(switch)
        try:
            net = SshNet(cluster)
            write_names(cluster, switch.hosts)
            for number, host in enumerate(switch.hosts[1:], start=1):
                net.server(host.address, host, behind=named(cluster, f"node{number}"))
            lines = over_ssh(cluster, net, switch.hosts)
            if count > torchrun_most:
                lines.pop("torchrun, ssh", None)
                print(f"  left out: torchrun on {count} hosts (--torchrun-hosts {torchrun_most})")
            spaces = spaces_of(switch.hosts)
            alternate(lines, rounds, count, spaces, inside(spaces, set()))
        finally:
            cluster.close()


def compare_under_slurm(count, rounds):
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)

        def make_hosts(number):
            cluster.hosts.append(Switch(number))
            return cluster.hosts[-1].hosts

        slurm = None
        try:
            slurm = Slurm(cluster, make_hosts, [f"n{number}" for number in range(1, count + 1)])
            prefix = [*slurm.prefix("head"), "srun", f"-N{count}", "--ntasks-per-node=1", "-c2"]
            lines = {"srun ddprun": [BIN / "ddprun", "--no-python", "sh", "-c", RANK]}
            if TORCHRUN.exists():
                lines["srun torchrun"] = torchrun_words(count, "n1:29400")
            spaces = spaces_of(slurm.hosts.values())
            alternate({name: [*prefix, *line] for name, line in lines.items()}, rounds, count,
                      spaces, inside(spaces, set()), environment=slurm.environment, cwd=folder)
        finally:
            if slurm is not None:
                slurm.close()
            cluster.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--hosts", default="2,8,32")
    parser.add_argument("--slurm-nodes", default="2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torchrun-hosts", type=int, default=8)
    given = parser.parse_args()
    if not available():
        print("this machine does not allow network namespaces (needs root)")
        return
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; medians of {given.rounds}")
    for part, counts in ((lambda count: compare_over_ssh(count, given.rounds,
                                                         given.torchrun_hosts), given.hosts),
                         (lambda count: compare_under_slurm(count, given.rounds),
                          given.slurm_nodes)):
        try:
            for count in filter(None, counts.split(",")):
                part(int(count))
        except Skipped as why:
            print(f"  left out: {why}")


if __name__ == "__main__":
    main()
