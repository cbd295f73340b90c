"""ddprun compared with torchrun, in one run on one machine: start, memory, restart.

Each figure is the median of alternating rounds; the spread in brackets is the interquartile range.
Run it by `tests/benchmark/run`, never beside tests.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
sys.path.insert(0, str(ROOT))
from tests.support.installed_nccl import installed_nccl  # noqa: E402
from tests.support.ports import free_port  # noqa: E402

TWO_WORKERS = ["--standalone", "--nproc-per-node", "2", "--no-python", "/bin/true"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def summary(values, unit):
    middle = statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (middle,) * 3
    return f"{middle:.1f} {unit} [{low:.1f} to {high:.1f}, n={len(values)}]"


def wall_ms(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1000


def bare_spawn_ms(count=2):
    begin = time.perf_counter()
    children = [os.posix_spawn("/bin/true", ["true"], os.environ) for _ in range(count)]
    for child in children:
        os.waitpid(child, 0)
    return (time.perf_counter() - begin) * 1000


def start(rounds):
    ours, theirs, bare = [], [], []
    for index in range(rounds):
        bare.append(bare_spawn_ms())
        for _ in range(4):
            ours.append(wall_ms([BIN / "ddprun", *TWO_WORKERS]))
        if index < 5:
            theirs.append(wall_ms([*TORCHRUN, *TWO_WORKERS]))
    print("standalone, 2 workers of /bin/true, wall")
    print(f"  bare spawn and wait  {summary(bare, 'ms')}")
    print(f"  ddprun               {summary(ours, 'ms')}   (promise: at most 15 ms)")
    print(f"  torchrun             {summary(theirs, 'ms')}")
    print(f"  torchrun / ddprun    {statistics.median(theirs) / statistics.median(ours):.0f} x")


def ids(rounds):
    """What NCCL's unique ids cost: in a first round, and in a restart, for which a helper waits."""
    library = installed_nccl()
    if library is None:
        print("NCCL ids: this Python has no NCCL")
        return
    os.environ["DDPRUN_NCCL_LIBRARY"] = str(library)
    starts, restarts = {"off": [], "on": []}, {"off": [], "on": []}
    for _ in range(rounds):
        for mode in ("off", "on"):
            launcher = [BIN / "ddprun", "--nccl-ids", mode]
            starts[mode].append(wall_ms([*launcher, *TWO_WORKERS]))
            restarts[mode].append(restart_ms(launcher))
    print("with NCCL ids (--nccl-ids=on) against without")
    for what, times in (("start of 2 workers", starts), ("restart of 2 x 2", restarts)):
        on, off = (summary(times[mode], "ms") for mode in ("on", "off"))
        print(f"  {what:20} {on} against {off}")


def many(rounds):
    arguments = ["--standalone", "--nproc-per-node", "64", "--no-python", "/bin/true"]
    ours, bare = [], []
    for _ in range(rounds):
        bare.append(bare_spawn_ms(64))
        ours.append(wall_ms([BIN / "ddprun", *arguments]))
    print("standalone, 64 workers of /bin/true, wall")
    print(f"  bare spawn and wait  {summary(bare, 'ms')}")
    print(f"  ddprun               {summary(ours, 'ms')}")


def high_water_mb(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) / 1024


def memory():
    figures = {}
    for name, launcher in (("ddprun", [BIN / "ddprun"]), ("torchrun", TORCHRUN)):
        folder = Path(tempfile.mkdtemp())
        ready = folder / "ready"
        worker = ["bash", "-c", f"echo >>{ready}; exec sleep 600"]
        process = subprocess.Popen(
            [*launcher, "--standalone", "--nproc-per-node", "2", "--no-python", *worker],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not ready.exists() or len(ready.read_text()) < 2:
            time.sleep(0.01)
        figures[name] = high_water_mb(process.pid)
        process.terminate()
        process.wait()
        shutil.rmtree(folder)
    print("agent memory, VmHWM with 2 live workers")
    print(f"  ddprun               {figures['ddprun']:.1f} MB   (promise: at most 8 MB)")
    print(f"  torchrun             {figures['torchrun']:.1f} MB")
    print(f"  torchrun / ddprun    {figures['torchrun'] / figures['ddprun']:.0f} x")


def restart_ms(launcher, nodes=2, workers=2):
    """All nodes are on this machine: the time from a worker's exit until all workers run again."""
    folder = Path(tempfile.mkdtemp())
    notes = folder / "notes"
    endpoint = f"127.0.0.1:{free_port()}"
    agents = []
    for index in range(nodes):
        agents.append(subprocess.Popen(
            [*launcher, "--nnodes", str(nodes), "--nproc-per-node", str(workers),
             "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "bench",
             "--max-restarts", "3", "--no-python", BIN / "restart_worker", notes],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if index == 0:
            time.sleep(0.5)
    codes = [agent.wait() for agent in agents]
    lines = [line.split() for line in notes.read_text().splitlines()]
    shutil.rmtree(folder)
    end = next(int(line[3]) for line in lines if line[2] == "exit")
    again = [int(line[3]) for line in lines if line[2] == "start" and int(line[3]) > end]
    if any(codes) or len(again) != nodes * workers:
        raise RuntimeError(f"restart did not work: exit codes {codes}, {len(again)} again")
    return (max(again) - end) / 1e6


def restart(rounds):
    ours, theirs = [], []
    for index in range(rounds):
        ours.append(restart_ms([BIN / "ddprun"]))
        if index < 5:
            theirs.append(restart_ms(TORCHRUN))
    print("2 nodes x 2 workers: a worker exits 3 -> all 4 started again")
    print(f"  ddprun               {summary(ours, 'ms')}   (promise: at most 20 ms)")
    print(f"  torchrun             {summary(theirs, 'ms')}")
    print(f"  torchrun / ddprun    {statistics.median(theirs) / statistics.median(ours):.0f} x")


def restart_of_many(rounds):
    print("N nodes x 1 worker, all on this machine: a worker exits 3 -> all N started again")
    for nodes in (8, 64, 256):
        times = [restart_ms([BIN / "ddprun"], nodes, 1) for _ in range(rounds)]
        print(f"  {nodes:3} nodes            {summary(times, 'ms')}")


def fresh_daemon_ms():
    """Starts a daemon and, as soon as it listens, two agents: the time from the daemon's start to
    the start of all workers."""
    folder = Path(tempfile.mkdtemp())
    notes, port_file = folder / "notes", folder / "port"
    notes.touch()
    begin = time.time_ns()
    daemon = subprocess.Popen(
        [BIN / "ddprun-rendezvous", "--bind", "127.0.0.1", "--port", "0", "--port-file", port_file,
         "--state-dir", folder / "state"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not port_file.exists():
        time.sleep(0.0002)
    worker = f"date +%s%N >> {notes}"
    agents = [subprocess.Popen(
        [BIN / "ddprun", "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint",
         f"127.0.0.1:{port_file.read_text().strip()}", "--no-python", "bash", "-c", worker],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
    codes = [agent.wait() for agent in agents]
    daemon.terminate()
    daemon.wait()
    starts = [int(line) for line in notes.read_text().split()]
    shutil.rmtree(folder)
    if codes != [0, 0] or len(starts) != 2:
        raise RuntimeError(f"the first round did not start: exit codes {codes}")
    return (min(starts) - begin) / 1e6


def fresh_daemon(rounds):
    times = [fresh_daemon_ms() for _ in range(rounds)]
    print("a daemon with a new state folder is started, then two agents -> first worker")
    print(f"  ddprun               {summary(times, 'ms')}")


def main():
    # The daemons' state is removed with the benchmark's folder.
    os.environ["XDG_STATE_HOME"] = state = tempfile.mkdtemp()
    try:
        run()
    finally:
        shutil.rmtree(state, ignore_errors=True)


def run():
    print(f"{os.cpu_count()} cores; medians [interquartile range]")
    start(10)
    many(20)
    memory()
    restart(15)
    restart_of_many(5)
    ids(15)
    fresh_daemon(15)


if __name__ == "__main__":
    main()
