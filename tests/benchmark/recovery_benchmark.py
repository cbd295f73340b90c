"""How a job recovers, and how soon: one DDP script on gloo under ddprun and under torchrun, on
hosts that are network namespaces, with the same faults.

Both meet at one ddprun-rendezvous on a host of its own (torchrun takes it for its TCPStore), so
that no fault hits the meeting point. A job that has not ended `LIMIT` seconds after its fault is
given up. Run it by `tests/benchmark/run recovery`, never beside tests. It needs root, for the
namespaces. Started directly it takes words from the names of the scenarios to run, and
`--rounds=N`.
"""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
sys.path.insert(0, str(ROOT))
from tests.support import hosts as cables  # noqa: E402
from tests.support import slow_switch  # noqa: E402

SCRIPT = Path(__file__).with_name("recovery_train.py")
LAUNCHERS = {"ddprun": [BIN / "ddprun"],
             "torchrun": [sys.executable, "-m", "torch.distributed.run"]}
EPOCHS = 30
LIMIT = 90
ROUNDS = 3
# Each host has its own name and /etc/hosts.
NAMED = ["unshare", "--uts", "--mount", "sh", "-c",
         'hostname "$0"; mount --bind "$1" /etc/hosts; shift; exec "$@"']


class Job:
    """One run of the script on all of `hosts` except the last, which has the daemon."""

    def __init__(self, launcher, hosts, names, known, nnodes):
        self.folder = Path(tempfile.mkdtemp())
        self.notes = self.folder / "notes"
        self.notes.touch()
        self.hosts = hosts[:-1]
        table = ["127.0.0.1 localhost"]
        table += [f"{host.address} {name}" for host, name in zip(self.hosts, names) if known]
        hosts_file = self.folder / "hosts"
        hosts_file.write_text("\n".join(table) + "\n")
        port_file = self.folder / "port"
        self.daemon = self.start([*hosts[-1].prefix, BIN / "ddprun-rendezvous", "--bind",
                                  hosts[-1].address, "--port", "0", "--port-file", port_file,
                                  "--state-dir", "none", "--recovery-window", "0"], "daemon")
        self.wait("the daemon", port_file.exists)
        self.agents = []
        for host, name in zip(self.hosts, names):
            self.agents.append(self.start(
                [*host.prefix, *NAMED, name, hosts_file, *LAUNCHERS[launcher], f"--nnodes={nnodes}",
                 "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-conf=last_call_timeout=3",
                 f"--rdzv-endpoint={hosts[-1].address}:{port_file.read_text().strip()}",
                 "--rdzv-id=bench", "--max-restarts=3", SCRIPT, self.notes, EPOCHS],
                f"agent-{len(self.agents)}"))

    def start(self, command, name):
        with open(self.folder / f"{name}.log", "wb") as log:
            return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log, start_new_session=True,
                                    env={**os.environ, "OMP_NUM_THREADS": "1",
                                         "PYTHON_EXEC": sys.executable})

    def wait(self, what, condition, limit=LIMIT):
        until = time.monotonic() + limit
        while not condition():
            if time.monotonic() > until or not self.is_on():
                return False
            time.sleep(0.01)
        return True

    def is_on(self):
        agents = getattr(self, "agents", [])
        return not agents or any(agent.poll() is None for agent in agents)

    def lines(self, what, after=0):
        """(ns, rank, world, epoch) of each line."""
        found = [line.split() for line in self.notes.read_text().splitlines()]
        return [(int(ns), int(rank), int(world), int(epoch))
                for ns, kind, rank, world, epoch in found if kind == what and int(ns) > after]

    def is_over(self):
        return any(epoch == EPOCHS - 1 for _, _, _, epoch in self.lines("epoch"))

    def host_of_rank(self, rank):
        for host in self.hosts:
            for pid in pids_on(host):
                if variable(pid, "RANK") == str(rank):
                    return host
        raise RuntimeError(f"no host has rank {rank}")

    def close(self):
        for host in self.hosts:
            kill_host(host)
        for process in [*self.agents, self.daemon]:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def pids_on(host):
    done = subprocess.run(["ip", "netns", "pids", host.name], capture_output=True, text=True,
                          check=False)
    return [int(word) for word in done.stdout.split()]


def variable(pid, name):
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    found = re.search(rb"(?:^|\0)" + name.encode() + rb"=([^\0]*)", text)
    return found and found[1].decode()


def kill_host(host):
    for pid in pids_on(host):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def kill_worker(job):
    for pid in pids_on(job.host_of_rank(1)):
        # The launcher's own helpers do not have our script on their command line.
        if variable(pid, "RANK") == "1" and b"recovery_train" in Path(
                f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


SCENARIOS = [
    # name, hosts, nnodes, names, known to all, delay in s, loss, fault, ranks afterwards
    ("2 hosts, a worker killed", 2, "2", "own", True, 0, 0, kill_worker, 2),
    ("3 hosts, host of rank 0 killed", 3, "2:3", "own", True, 0, 0,
     lambda job: kill_host(job.host_of_rank(0)), 2),
    ("3 hosts, a cable cut", 3, "2:3", "own", True, 0, 0,
     lambda job: job.host_of_rank(1).cut(), 2),
    ("3 hosts, two of one name, none known, a worker killed", 3, "3", "alike", False, 0, 0,
     kill_worker, 3),
    ("3 hosts, two of one name, known by it, a cable cut", 3, "2:3", "alike", True, 0, 0,
     lambda job: job.host_of_rank(1).cut(), 2),
    ("3 hosts, 20 ms and 1 % loss, a worker killed", 3, "3", "own", True, 0.02, 0.01,
     kill_worker, 3),
]


def play(launcher, scenario):
    """The seconds from the fault until all ranks run again, until an epoch is finished, and how
    many of these the import of torch takes; None if that did not happen. And why the job did not
    succeed."""
    _, count, nnodes, names, known, delay, loss, fault, ranks = scenario
    if delay or loss:
        switch = slow_switch.SlowSwitch(count + 1, delay, loss)
    else:
        switch = cables.Switch(count + 1)
    called = {"own": [f"host{index}" for index in range(count)],
              "alike": ["twin", "twin", "other"][:count]}[names]
    job = Job(launcher, switch.hosts, called, known, nnodes)
    try:
        if not job.wait("epochs", lambda: any(line[3] >= 3 for line in job.lines("epoch"))):
            return None, None, None, "never trained"
        before = time.time_ns()
        fault(job)
        job.wait("the end", job.is_over)
        starts = sorted(line[0] for line in job.lines("start", before) if line[2] == ranks)
        imported = sorted(line[0] for line in job.lines("imported", before))
        epochs = sorted(line[0] for line in job.lines("epoch", starts[0] if starts else before))
        live = (starts[ranks - 1] - before) / 1e9 if len(starts) >= ranks else None
        trained = (epochs[0] - before) / 1e9 if starts and epochs else None
        share = None
        if trained is not None and len(imported) >= ranks:
            share = (imported[ranks - 1] - starts[ranks - 1]) / 1e9
        why = "" if job.is_over() else f"not over {LIMIT} s after the fault"
        if why and not job.is_on():
            codes = [agent.returncode for agent in job.agents]
            why = f"all agents have ended: {codes}"
        return live, trained, share, why
    finally:
        job.close()
        switch.remove()


def middle(values, unit="s"):
    there = [value for value in values if value is not None]
    return f"{statistics.median(there):.2f} {unit}" if there else "-"


def main():
    if not cables.available() or not slow_switch.available():
        print("left out: this machine allows no network namespaces or TAP devices")
        return
    os.environ["XDG_STATE_HOME"] = state = tempfile.mkdtemp()
    rounds = next((int(word[9:]) for word in sys.argv[1:] if word.startswith("--rounds=")), ROUNDS)
    chosen = [word for word in sys.argv[1:] if not word.startswith("--")]
    print(f"{os.cpu_count()} cores; one worker a host, gloo; from the fault, medians")
    print(f"  {'':54} {'ended well':>10} {'ranks live':>10} {'next epoch':>10} "
          f"{'of it import':>12}")
    for scenario in SCENARIOS:
        if chosen and not any(word in scenario[0] for word in chosen):
            continue
        print(f"  {scenario[0]}")
        # They alternate, so that other load on this machine affects both.
        all_results = {launcher: [] for launcher in LAUNCHERS}
        for _ in range(rounds):
            for launcher, results in all_results.items():
                results.append(play(launcher, scenario))
        for launcher, results in all_results.items():
            live, trained, share, why = zip(*results)
            well = sum(not reason for reason in why)
            print(f"    {launcher:52} {well:>5} of {rounds} {middle(live):>10} "
                  f"{middle(trained):>10} {middle(share):>12}")
            for reason in sorted({reason for reason in why if reason}):
                print(f"      {why.count(reason)} x {reason}")
            sys.stdout.flush()
    shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    main()
