#!/usr/bin/env python3
"""The time from the SIGKILL of a rank to the first step of the next round, for a DDP script on
gloo: with spares that wait (--warm auto), without (--warm off), and with torchrun, alternating, on
this host; what a spare costs to make and to start; and what the spares cost while the script
trains.

`agents x workers`: the agents meet at one daemon here. `round`: when the agent starts the next
round (according to its log, in ms). Run it by `tests/benchmark/run warm`, never beside tests.
"""

import datetime
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support.ports import free_port  # noqa: E402
from tests.support.warm_agent import WarmAgent  # noqa: E402

BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
SCRIPT = Path(__file__).with_name("warm_train.py")
RESTARTS = int(os.environ.get("DDPRUN_BENCHMARK_RESTARTS", "3"))
LIMIT = 600
HUNG = 120  # torchrun's restart counts as hung if it takes longer
WINDOW = int(os.environ.get("DDPRUN_BENCHMARK_WINDOW", "10"))  # seconds of training
PHASES = ("main", "imported", "group", "ddp", "step")
WAYS = ("auto", "off", "torchrun")
SPARES = 8


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


def ddprun_jobs(folder, agents, workers, warm, script):
    """Starts a daemon; returns it and the agents' commands."""
    port_file = folder / "port"
    daemon = subprocess.Popen([BIN / "ddprun-rendezvous", "--bind", "127.0.0.1", "--port", "0",
                               "--port-file", port_file, "--state-dir", "none"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait("the daemon", lambda: port_file.exists() and port_file.read_text().strip())
    return daemon, [
        [BIN / "ddprun", f"--nnodes={agents}", f"--nproc-per-node={workers}", "--warm", warm,
         "--rdzv-endpoint", f"127.0.0.1:{port_file.read_text().strip()}", "--embed-daemon",
         "never", "--max-restarts", 1, "--max-quick-failures", 0, "--rdzv-conf",
         "backoff_max=0", "--node-id", f"node{number}", *script] for number in range(agents)]


def torchrun_jobs(agents, workers, script):
    port = free_port()
    return [[sys.executable, "-m", "torch.distributed.run", f"--nnodes={agents}",
             f"--nproc-per-node={workers}", "--max-restarts", 1, "--rdzv-backend", "c10d",
             "--rdzv-endpoint", f"127.0.0.1:{port}", *script] for _ in range(agents)]


def began(log, at):
    """When this agent has started the second round, in nanoseconds since 1970."""
    hour, minute, second = re.search(r" (\d\d):(\d\d):(\d\d\.\d{3}): round 2 starts",
                                     log.read_text()).groups()
    day = datetime.datetime.fromtimestamp(at / 1e9, datetime.timezone.utc)
    whole = day.replace(hour=int(hour), minute=int(minute), second=0, microsecond=0)
    return int((whole.timestamp() + float(second)) * 1e9)


def restart(agents, workers, way):
    """The seconds from the kill until the last rank has reached each phase; None: torchrun has
    failed, or hangs because the new workers cannot connect to each other."""
    folder = Path(tempfile.mkdtemp())
    notes, world = folder / "notes", agents * workers
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable,
                   "XDG_CACHE_HOME": str(folder / "cache"), "TZ": "UTC"}
    script = [SCRIPT, notes, 2]
    daemon, jobs = (None, torchrun_jobs(agents, workers, script)) if way == "torchrun" else \
        ddprun_jobs(folder, agents, workers, way, script)
    logs = [folder / f"agent{number}" for number in range(agents)]
    started = [subprocess.Popen(list(map(str, job)), stdout=subprocess.DEVNULL,
                                stderr=open(log, "w"), env=environment)
               for job, log in zip(jobs, logs)]
    wait("the first steps", lambda: len(noted(notes, "step", 0)) == world)
    if way == "auto":
        wait("the spares", lambda: hurry(started) and all(spares_wait(log, 0) for log in logs))
    victim = int(noted(notes, "step", 0)[-1][4])
    at = time.time_ns()
    os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + HUNG

    def has_failed():
        return any(one.poll() not in (None, 0) for one in started) or \
            (way == "torchrun" and time.monotonic() > deadline)

    wait("the next steps", lambda: len(noted(notes, "step", 1)) == world or has_failed())
    if way == "torchrun" and len(noted(notes, "step", 1)) < world:
        for one in started:
            one.terminate()
            one.wait(LIMIT)
        return None
    for one in started:
        if one.wait(LIMIT) != 0:
            raise SystemExit("a job failed: " + logs[0].read_text()[-2000:])
    times = [max(int(line[0]) for line in noted(notes, phase, 1)) for phase in PHASES]
    if daemon:
        daemon.terminate()
        daemon.wait()
        times.insert(0, max(began(log, at) for log in logs))
    else:
        times.insert(0, None)  # torchrun does not print it
    return [None if one is None else (one - at) / 1e9 for one in times]


def restarts(shapes=((1, 2), (2, 2))):
    print(f"seconds from SIGKILL of a rank until the last of all ranks is there; medians of "
          f"{RESTARTS}, in turn")
    print(f"{'':22}" + "".join(f"{phase:>10}" for phase in ("round", *PHASES)))
    for agents, workers in shapes:
        found = {way: [] for way in WAYS}
        for _ in range(RESTARTS):
            for way in WAYS:
                found[way].append(restart(agents, workers, way))
        for way in WAYS:
            ended = [one for one in found[way] if one]
            columns = [[one for one in column if one is not None] for column in zip(*ended)]
            name = way if way == "torchrun" else f"--warm {way}"
            print(f"{agents} x {workers}, {name}".ljust(22)
                  + "".join(f"{statistics.median(column):10.3f}" if column else f"{'-':>10}"
                            for column in columns)
                  + (f"  failed: {RESTARTS - len(ended)}" if len(ended) < RESTARTS else ""),
                  flush=True)


def spares():
    """For one spare: the milliseconds of the two forks, and from the message to `__main__`."""
    folder = Path(tempfile.mkdtemp())
    notes = folder / "notes"
    agent = WarmAgent(sys.executable, [SCRIPT, notes, 1, 0], {
        **os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port())})
    agent.cold(is_recorded=True, RANK="0", TORCHELASTIC_RESTART_COUNT="0")
    answer = agent.load_what_may_be()
    forks, messages = [], []
    for number in range(1, SPARES + 1):
        begun = time.monotonic()
        spare = agent.spare()
        forks.append(1e3 * (time.monotonic() - begun))
        at = time.time_ns()
        ended = agent.warm(spare, RANK="0", TORCHELASTIC_RESTART_COUNT=str(number))
        if ended.status != 0 or ended.reported:
            raise SystemExit(f"a spare failed: {ended}")
        messages.append((int(noted(notes, "main", number)[0][0]) - at) / 1e6)
    agent.close()
    print(f"\none spare, of a zygote that says '{answer.strip()}', medians of {SPARES}: forked in "
          f"{statistics.median(forks):.1f} ms, from the message to __main__ "
          f"{statistics.median(messages):.1f} ms", flush=True)


def hurry(agents):
    """Raises the priority of the processes that make imports ahead, because this machine may be
    busy."""
    for agent in agents:
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        for pid in children:
            with suppress(OSError):
                Path(f"/proc/{pid}/autogroup").write_text("0", encoding="ascii")
    return True


def spares_wait(log, restart):
    """Waits for the spares once torch is among the imports, and again after each restart."""
    lines = [line for line in log.read_text().splitlines() if "warm:" in line]
    whole = [at for at, line in enumerate(lines) if "modules are imported ahead" in line
             and int(line.split("warm: ")[1].split()[0]) > 1000]
    return whole and sum("spare workers wait" in line for line in lines[whole[-1]:]) > restart


def waiting_processes(agent, script):
    """The zygote and the spares, which have the workers' command, and no rank."""
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
    """The steps per second of two ranks; and for the zygote and the spares: how many there are, the
    processor seconds that they used meanwhile, and the private memory of each."""
    folder = Path(tempfile.mkdtemp())
    notes, log = folder / "notes", folder / "agent"
    with open(log, "w", encoding="utf-8") as errors:
        job = subprocess.Popen(
            [BIN / "ddprun", "--standalone", "--nproc-per-node=2", "--warm", warm, "--max-restarts",
             "1", SCRIPT, notes, "2", "0"], stdout=subprocess.DEVNULL, stderr=errors,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable})
    wait("the first steps", lambda: len(noted(notes, "hundred", 0)) > 2)
    if warm != "off":
        wait("the spares", lambda: hurry([job]) and spares_wait(log, 0))
        time.sleep(70)  # until the imports count as complete, and no worker is watched any more
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
    restarts()
    spares()
    costs()


if __name__ == "__main__":
    main()
