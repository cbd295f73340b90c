#!/usr/bin/env python3
"""From the SIGKILL of a rank to the first step of the next round, of a DDP script on gloo: with
spares that wait (--warm auto) and without (--warm off), one after the other, on this host; and what
the spares cost while it trains.

`agents x workers`: agents meet at one daemon here. Run it by `tests/benchmark/run warm`, never
beside tests.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
SCRIPT = Path(__file__).with_name("warm_train.py")
RESTARTS = int(os.environ.get("DDPRUN_BENCHMARK_RESTARTS", "3"))
LIMIT = 600
WINDOW = int(os.environ.get("DDPRUN_BENCHMARK_WINDOW", "10"))  # seconds of training
PHASES = ("main", "imported", "group", "ddp", "step")


def wait(what, condition):
    deadline = time.monotonic() + LIMIT
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain for {what}")
        time.sleep(0.005)
    return value


def noted(path, what, restart):
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line[1] == what and line[3] == str(restart)]


def restarts(agents, workers, warm):
    """Of each restart: seconds from the kill until the last rank has reached each phase."""
    folder = Path(tempfile.mkdtemp())
    notes, world = folder / "notes", agents * workers
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable}
    port_file = folder / "port"
    daemon = subprocess.Popen([BIN / "ddprun-rendezvous", "--bind", "127.0.0.1", "--port", "0",
                               "--port-file", port_file, "--state-dir", "none"],
                              stderr=subprocess.DEVNULL)
    wait("the daemon", lambda: port_file.exists() and port_file.read_text().strip())
    started, logs = [], []
    for number in range(agents):
        logs.append(folder / f"agent{number}")
        started.append(subprocess.Popen(list(map(str,
            [BIN / "ddprun", f"--nnodes={agents}", f"--nproc-per-node={workers}", "--warm", warm,
             "--rdzv-endpoint", f"127.0.0.1:{port_file.read_text().strip()}", "--embed-daemon",
             "never", "--max-restarts", RESTARTS + 1, "--max-quick-failures", 0, "--rdzv-conf",
             "backoff_max=0", "--node-id", f"node{number}", SCRIPT, notes, RESTARTS + 1])),
            stdout=subprocess.DEVNULL, stderr=open(logs[-1], "w"), env=environment))
    found = []
    for restart in range(RESTARTS):
        wait("the first steps", lambda: len(noted(notes, "step", restart)) == world)
        steps = noted(notes, "step", restart)
        if warm != "off":
            wait("the spares", lambda: all(spares_wait(log, restart) for log in logs))
        victim = int(steps[-1][4])
        at = time.time_ns()
        os.kill(victim, signal.SIGKILL)
        wait("the next steps", lambda: len(noted(notes, "step", restart + 1)) == world)
        found.append([(max(int(line[0]) for line in noted(notes, phase, restart + 1)) - at) / 1e9
                      for phase in PHASES])
    for one in started:
        if one.wait(LIMIT) != 0:
            raise SystemExit("a job failed: " + logs[0].read_text()[-2000:])
    daemon.terminate()
    daemon.wait()
    return found


def spares_wait(log, restart):
    """Once torch is among the imports, and again after each restart."""
    lines = [line for line in log.read_text().splitlines() if "warm:" in line]
    whole = [at for at, line in enumerate(lines) if "modules are imported ahead" in line
             and int(line.split("warm: ")[1].split()[0]) > 1000]
    return whole and sum("spare workers wait" in line for line in lines[whole[-1]:]) > restart


def waiting_processes(agent, script):
    """The zygote and the spares: they have the workers' command, and no rank."""
    found = []
    for pid in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        is_ranked = b"\0RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
        if os.fsencode(script) in command and not is_ranked:
            found.append(int(pid))
    return found


def seconds_of_processor(pid):
    own = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(own[11]) + int(own[12])) / os.sysconf("SC_CLK_TCK")


def private_mebibytes(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def training(warm):
    """Steps a second of two ranks; and of the zygote and the spares: how many, their seconds of
    processor meanwhile, and the private memory of each."""
    folder = Path(tempfile.mkdtemp())
    notes, log = folder / "notes", folder / "agent"
    with open(log, "w", encoding="utf-8") as errors:
        job = subprocess.Popen(
            [BIN / "ddprun", "--standalone", "--nproc-per-node=2", "--warm", warm, "--max-restarts",
             "1", SCRIPT, notes, "2", "0"], stdout=subprocess.DEVNULL, stderr=errors,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable})
    wait("the first steps", lambda: len(noted(notes, "hundred", 0)) > 2)
    if warm != "off":
        wait("the spares", lambda: spares_wait(log, 0))
        time.sleep(70)  # until the imports are held to be whole, and no worker is looked at
    others = waiting_processes(job.pid, str(SCRIPT))
    before = [seconds_of_processor(pid) for pid in others]
    begun = len(noted(notes, "hundred", 0))
    since = time.monotonic()
    time.sleep(WINDOW)
    steps = 50 * (len(noted(notes, "hundred", 0)) - begun)  # each rank notes its own
    rate = steps / (time.monotonic() - since)
    busy = sum(seconds_of_processor(pid) for pid in others) - sum(before)
    memory = [private_mebibytes(pid) for pid in others]
    job.terminate()
    job.wait(LIMIT)
    return rate, len(others), busy, memory


def costs():
    print(f"\nwhile it trains, {WINDOW} s each, 1 node x 2:")
    for _ in range(RESTARTS):
        for warm in ("off", "auto"):
            rate, count, busy, memory = training(warm)
            print(f"--warm {warm:<5} {rate:8.1f} steps/s"
                  + (f"; zygote and {count - 1} spares: {busy:.2f} s of processor, private memory "
                     + ", ".join(f"{one:.1f}" for one in memory) + " MiB" if count else ""),
                  flush=True)


def main():
    print(f"seconds from SIGKILL of a rank until the last of all ranks is there; medians of "
          f"{RESTARTS}")
    print(f"{'':22}" + "".join(f"{phase:>10}" for phase in PHASES))
    for agents, workers in ((1, 2), (2, 2)):
        for warm in ("auto", "off"):
            found = restarts(agents, workers, warm)
            medians = [statistics.median(column) for column in zip(*found)]
            print(f"{agents} x {workers}, --warm {warm:<6}".ljust(22)
                  + "".join(f"{value:10.3f}" for value in medians), flush=True)
    costs()


if __name__ == "__main__":
    main()
