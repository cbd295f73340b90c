#!/usr/bin/env python3
"""Ranks that stand still, on one node: how long it takes from the failure of a rank until the
others are stopped, because they are asked before where they stand; and from the last progress of
any rank until the line that names the one that hangs (--hang-timeout auto).

All ranks report their steps, and wait in a collective of Python for those that do not come: one
sleeps, spins, is stopped (SIGSTOP), or is in state D (it waits for a child as after vfork()).

    evidence_benchmark.py [--rounds N] [--ranks N] [--calls N] [--only-hangs]

--only-hangs: without the stops. --calls N: also the naming of a hang with PyTorch and
--collectives on, after N calls of all_reduce in each rank. Run it by
`tests/benchmark/run evidence`, never beside tests.
"""

import argparse
import os
import re
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
from tests.support.standing_script import write  # noqa: E402

LIMIT = 600
STANDS = 10  # seconds; an agent counts a rank as still after 4
LAST_STEP = 2
STEP = 3  # seconds, longer than an agent's look: it has to see that ranks report each step
NAMED = "no rank of this node has moved"

# What each rank does in a step. `odd`: by rank, what it does in the last one.
WORK = """
    odd = {odd}.get(rank)
    if "DDPRUN_PROGRESS" in os.environ:
        Path(os.environ["DDPRUN_PROGRESS"]).write_text(str(step))
    if step == 0 and rank == 0:
        def note_stop(number, frame):
            (folder / "stopped").write_text(str(time.monotonic()))
            os._exit(1)
        signal.signal(signal.SIGTERM, note_stop)
    if step < {last_step}:
        return time.sleep({step_seconds})
    (folder / f"stands.{{rank}}").write_text(str(time.monotonic()))
    if odd == "sleeps":
        time.sleep(3600)
    while odd == "spins":
        pass
    if odd == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if odd == "in state D":
        import ctypes
        system = ctypes.CDLL(None)
        stack = ctypes.create_string_buffer(1 << 16)
        top = ctypes.c_void_p(ctypes.addressof(stack) + (1 << 16) & ~15)
        system.clone(ctypes.cast(system.pause, ctypes.c_void_p), top, 0x4000 | signal.SIGCHLD, None)
    while odd == "fails":
        if (folder / "fail").exists():
            (folder / "failed").write_text(str(time.monotonic()))
            os._exit(3)
        time.sleep(0.005)
"""

TRAINS = """
import os, time
from pathlib import Path
import torch
import torch.distributed as dist

folder = Path(os.environ["DDPRUN_TEST_CONTROL"])
dist.init_process_group("gloo")
for _ in range({calls}):
    dist.all_reduce(torch.ones(8))
(folder / f"stands.{{dist.get_rank()}}").write_text(str(time.monotonic()))
if dist.get_rank() == 1:
    time.sleep(3600)
dist.all_reduce(torch.ones(8))
"""

# By what is shown: what ranks 1, 2, ... do.
KINDS = {
    "one sleeps": ("sleeps",),
    "one spins": ("spins",),
    "one is stopped": ("stopped",),
    "one is in state D": ("in state D",),
    "one of each of the last three": ("spins", "stopped", "in state D"),
}


class Job:
    def __init__(self, folder, script, ranks, *options):
        self.control = folder / "control"
        self.control.mkdir()
        environment = {**os.environ, "DDPRUN_TEST_CONTROL": str(self.control),
                       "PYTHON_EXEC": sys.executable, "XDG_STATE_HOME": str(folder / "state"),
                       "OMP_NUM_THREADS": "1"}
        self.errors = folder / "errors"
        self._ranks = ranks
        with open(self.errors, "w") as errors:
            self._agent = subprocess.Popen(
                [BIN / "ddprun", "--nproc-per-node", str(ranks), "--node-id", "node", *options,
                 script], env=environment, stdout=subprocess.DEVNULL, stderr=errors)

    def wait(self, what, found):
        deadline = time.monotonic() + LIMIT
        while not (value := found()):
            if time.monotonic() > deadline or self._agent.poll() is not None:
                raise SystemExit(f"waited in vain for {what}:\n{self.errors.read_text()}")
            time.sleep(0.002)
        return value

    def noted(self, name):
        path = self.control / name
        text = self.wait(name, lambda: path.exists() and path.read_text())
        return float(text)

    def last_progress(self):
        return max(self.noted(f"stands.{rank}") for rank in range(self._ranks))

    def says(self, words):
        """The line, and when it was there."""
        (line,) = self.wait(words, lambda: re.findall(f".*{words}.*", self.errors.read_text())[:1])
        return line, time.monotonic()

    def end(self):
        self._agent.send_signal(signal.SIGTERM)
        try:
            self._agent.wait(60)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            self._agent.wait()


def job(folder, ranks, odd, *options):
    work = WORK.format(odd=odd, last_step=LAST_STEP, step_seconds=STEP)
    script = write(folder, work, steps=LAST_STEP + 1)
    return Job(folder, script, ranks, *options)


def seconds_to_stop(ranks, kinds, *options):
    """From the end of the last rank by itself until rank 0 gets SIGTERM."""
    odd = {**dict(enumerate(kinds, 1)), ranks - 1: "fails"}
    with tempfile.TemporaryDirectory() as name:
        running = job(Path(name), ranks, odd, "--hang-timeout", "off", *options)
        try:
            running.last_progress()
            time.sleep(STANDS)
            (running.control / "fail").touch()
            return running.noted("stopped") - running.noted("failed")
        finally:
            running.end()


def seconds_to_name(ranks, kinds):
    with tempfile.TemporaryDirectory() as name:
        running = job(Path(name), ranks, dict(enumerate(kinds, 1)))
        try:
            last = running.last_progress()
            line, at = running.says(NAMED)
            return at - last, line
        finally:
            running.end()


def seconds_to_name_a_collective(ranks, calls):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(TRAINS.format(calls=calls))
        running = Job(folder, script, ranks, "--collectives", "on")
        try:
            last = running.last_progress()
            line, at = running.says(NAMED)
            return at - last, line
        finally:
            running.end()


def show(what, values):
    print(f"  {what:34} {statistics.median(values):6.2f} s  "
          f"[{min(values):.2f} to {max(values):.2f}, n={len(values)}]", flush=True)


def show_stops(given, rounds):
    print("from the failure of a rank until the others get SIGTERM")
    for what, kinds in {"all others wait": (), **KINDS}.items():
        show(what, [seconds_to_stop(given.ranks, kinds) for _ in rounds])
    show("the same with --evidence 0",
         [seconds_to_stop(given.ranks, KINDS["one is stopped"], "--evidence", "0")
          for _ in rounds])


def show_hangs(given, rounds):
    print("from the last progress until the hang is named")
    for what, kinds in KINDS.items():
        found = [seconds_to_name(given.ranks, kinds) for _ in rounds]
        show(what, [seconds for seconds, _ in found])
        print(f"    {found[0][1]}")
    if given.calls:
        found = [seconds_to_name_a_collective(given.ranks, given.calls) for _ in rounds]
        show(f"one sleeps, PyTorch, {given.calls} calls", [seconds for seconds, _ in found])
        print(f"    {found[0][1]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--only-hangs", action="store_true")
    given = parser.parse_args()
    rounds = range(given.rounds)
    print(f"{given.ranks} ranks, load {os.getloadavg()[0]:.1f}")
    if not given.only_hangs:
        show_stops(given, rounds)
    show_hangs(given, rounds)


if __name__ == "__main__":
    main()
