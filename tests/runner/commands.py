"""Starts programs and ends them: everything that a run has started is gone when it ends."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

MARK = "DDPRUN_TEST_RUN"  # in the environment of all processes that this run starts, at any depth
INTERRUPT_LIMIT_S = 30  # for pytest to end what its tests have started
SWEEP_LIMIT_S = 60  # then processes that hang in the kernel are no longer waited for
TICK_S = 0.5
# Each program has a group of its own, so that only this program gets Ctrl-C, and then ends the
# others.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
# A program that computes also gets a session of its own: the kernel divides the processors among
# sessions first (autogroups), whatever the niceness within one. In the same session as compilers
# the agents of tests would stand still while their workers, which have sessions of their own, run.
# Tests of processes stay in this session, because a test of SIGTSTP needs a group that is not
# orphaned. If the kernel has no autogroups, niceness has some of the effect.
OWN_SESSION = {"start_new_session": True}
NICE = ("nice", "-n", "10")


class Stopped(Exception):
    """The run is being ended, and nothing new is started."""


class Commands:
    def __init__(self):
        self.mark = uuid.uuid4().hex
        self.lock = threading.Lock()
        self.running = set()
        self.stopping = False

    def start(self, command, log=subprocess.DEVNULL, environment=None, is_apart=False, cwd=None):
        """`is_apart`: it computes."""
        words = [*(NICE if is_apart else ()), *map(str, command)]
        with self.lock:
            if self.stopping:
                raise Stopped
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=cwd,
                env={**os.environ, **(environment or {}), MARK: self.mark},
                **(OWN_SESSION if is_apart else OWN_GROUP))
            self.running.add(process)
        return process

    def run(self, command, log_path, limit_s, environment=None, is_apart=False, tick=None,
            append=False, cwd=None):
        """Returns the exit status, or None if it took too long. `tick` is called now and then, and
        can say so by returning a true value."""
        with open(log_path, "ab" if append else "wb") as log:
            process = self.start(command, log, environment, is_apart, cwd)
        end = time.monotonic() + limit_s
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(TICK_S)
                is_too_long = bool(tick and tick()) or time.monotonic() > end
                if process.poll() is None and is_too_long:
                    self.end([process])
                    return None
        finally:
            with self.lock:
                self.running.discard(process)
        if self.stopping:
            raise Stopped
        return process.returncode

    @staticmethod
    def end(processes):
        """Ends it by SIGINT first, so that pytest's tests end what they have started; then by
        SIGKILL."""
        for number, limit in ((signal.SIGINT, INTERRUPT_LIMIT_S), (signal.SIGKILL, None)):
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            until = time.monotonic() + (limit or 0)
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until - time.monotonic()) if limit else None)

    def stop(self):
        """Ends everything that runs, and what ended programs have left behind."""
        with self.lock:
            self.stopping = True
            processes = list(self.running)
        self.end(processes)
        self.sweep()

    def sweep(self):
        """Repeats until none is seen, because a killed process exists until the kernel has
        scheduled it."""
        wanted = f"{MARK}={self.mark}".encode()
        until = time.monotonic() + SWEEP_LIMIT_S
        while self.kill_those_with(wanted) and time.monotonic() < until:
            time.sleep(0.01)

    @staticmethod
    def kill_those_with(wanted):
        found = False
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found = True
                    os.kill(int(folder.name), signal.SIGKILL)
        return found
