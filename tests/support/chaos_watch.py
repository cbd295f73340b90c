"""Looks at the processes of one test in /proc, on a thread of its own, many times a second.

A look costs 1 to 2 ms. The environment of a foreign process is read only while the process is young
(it may yet execute one of our programs); of our own processes only the state is read again.
"""

import os
import threading
import time
from dataclasses import dataclass

from tests.support.chaos_checks import Seen
from tests.support.cluster import GUARDIAN

PERIOD = 0.02
YOUNG_SECONDS = 1.0
WORKER = "chaos_worker.sh"


def read_bytes(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Stat:
    """The content of /proc/PID/stat."""

    name: str
    state: str
    parent: int
    session: int
    start: int

    @property
    def lives(self):
        return self.state not in "ZX"


def parse_stat(line):
    # The name may contain spaces and parentheses.
    name, rest = line[line.index("(") + 1:].rsplit(")", 1)
    words = rest.split()
    return Stat(name, words[0], int(words[1]), int(words[3]), int(words[19]))


def stat_of(pid):
    """Returns None if the process is gone."""
    try:
        return parse_stat(read_bytes(f"/proc/{pid}/stat").decode(errors="replace"))
    except OSError:
        return None


def parse_environment(data):
    """Returns {name: value}, or None while the data is inconsistent: when bash reads its
    environment, it removes the '=' of one entry after the other, in place."""
    entries = [entry for entry in data.decode(errors="replace").split("\0") if entry]
    if not all("=" in entry for entry in entries):
        return None
    return dict(entry.split("=", 1) for entry in entries)


def seen_from(pid, stat, environment):
    """Makes the entry of a process whose `environment` has DDPRUN_ROUND."""
    def get(name):
        return environment.get(name, "")

    return Seen(
        pid=pid,
        start=stat.start,
        node=get("DDPRUN_NODE_ID"),
        instance=get("DDPRUN_INSTANCE"),
        round=int(get("DDPRUN_ROUND")),
        # A worker leads its session; a child that it forks has its name until it executes a
        # program.
        is_worker=stat.name == WORKER and stat.session == pid,
        rank=int(get("RANK") or 0),
        world_size=int(get("WORLD_SIZE") or 1),
        restarts=int(get("TORCHELASTIC_RESTART_COUNT") or 0),
        master=f"{get('MASTER_ADDR')}:{get('MASTER_PORT')}",
        state=stat.state,
    )


@dataclass(frozen=True)
class Look:
    """One pass over all processes. `others` are our processes without a round, {pid: Stat}."""

    number: int
    time: float
    processes: tuple
    others: dict

    def of(self, node):
        return [each for each in self.processes if each.node == node]

    def workers(self, node):
        found = [each for each in self.of(node) if each.is_worker]
        return sorted(found, key=lambda each: (each.round, each.rank))

    def guardian(self, agent_pid):
        """(pid, start) of the live guardian of this agent, or None."""
        for pid, stat in self.others.items():
            if stat.name == GUARDIAN and stat.parent == agent_pid:
                return (pid, stat.start)
        return None

    def identities(self):
        own = {(pid, stat.start) for pid, stat in self.others.items()}
        return own | {each.identity for each in self.processes}


class Scanner:
    """Finds the marked processes, and remembers between looks what cannot change."""

    def __init__(self, mark):
        self._mark = mark
        self._foreign = {}  # pid: when it was first seen
        self._rounds = {}  # (pid, start): environment
        self._guardians = set()  # (pid, start)
        self._ours = set()  # pids without a round in the last look, agents among them
        self._number = 0

    def look(self):
        self._number += 1
        now = time.monotonic()
        pids = [int(name) for name in os.listdir("/proc") if name[0] in "123456789"]
        # Process ids are reused, but rarely so soon that it matters.
        listed = set(pids)
        self._foreign = {pid: at for pid, at in self._foreign.items() if pid in listed}
        processes, others, rounds, guardians = [], {}, {}, {}
        for pid in pids:
            if now - self._foreign.get(pid, now) > YOUNG_SECONDS:
                continue
            stat = stat_of(pid)
            if stat is None or not stat.lives:
                continue
            identity = (pid, stat.start)
            environment = self._rounds.get(identity)
            if environment is None:
                environment = self._read(pid)
                # A guardian that was just started has an empty environment and, for a moment that
                # can be long on a busy machine, another name.
                if environment is None and (stat.name == GUARDIAN or stat.parent in self._ours):
                    guardians[pid] = stat
                    continue
                if environment is None:
                    self._foreign.setdefault(pid, now)
                    continue
                self._foreign.pop(pid, None)
            if not environment.get("DDPRUN_ROUND", "").isdigit():
                others[pid] = stat
                continue
            rounds[identity] = environment
            processes.append(seen_from(pid, stat, environment))
        self._rounds = rounds
        for pid, stat in guardians.items():
            if stat.parent in others or (pid, stat.start) in self._guardians:
                others[pid] = stat
        self._guardians = {(pid, others[pid].start) for pid in guardians if pid in others}
        self._ours = set(others)
        return Look(self._number, now, tuple(processes), others)

    def _read(self, pid):
        try:
            data = read_bytes(f"/proc/{pid}/environ")
        except OSError:
            return None
        environment = parse_environment(data)
        if environment is None or environment.get("DDPRUN_TEST_MARK") != self._mark:
            return None
        return environment


class Watch:
    """Takes a look every PERIOD and passes it to the checker. Thread rule: it holds `lock`
    meanwhile."""

    def __init__(self, mark, checker):
        self.checker = checker
        self.lock = threading.Lock()
        self._scanner = Scanner(mark)
        self._stopping = threading.Event()
        self._problem = None
        self._latest = self._scanner.look()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._stopping.is_set():
                look = self._scanner.look()
                with self.lock:
                    self.checker.look(look.time, look.processes)
                    self._latest = look
                self._stopping.wait(max(0.0, look.time + PERIOD - time.monotonic()))
        except Exception as problem:  # a dead watch must not look like one that found nothing
            self._problem = problem

    @property
    def latest(self):
        if self._problem is not None:
            raise self._problem
        return self._latest

    def stop(self):
        self._stopping.set()
        self._thread.join()
