"""What must hold in every look at the processes of a run. It needs no real processes.

The checker is given looks: at a time, the live processes, each with its round. It does not know how
they were found, so that tests can show it what is a violation and what is not.

A look is not atomic: while it reads, one process may die and another start. Two processes that are
seen together in two consecutive looks were certainly alive at the same time: the one that was read
first in the first look was still alive in the second, after the other had been read.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Seen:
    """A live process of a round. (pid, start) is unique until the machine is rebooted."""

    pid: int
    start: int  # clock ticks since boot
    node: str
    instance: str
    round: int
    is_worker: bool = True  # otherwise a worker's child
    rank: int = 0
    world_size: int = 1
    restarts: int = 0
    master: str = ""
    state: str = "S"

    @property
    def identity(self):
        return (self.pid, self.start)

    @property
    def key(self):
        return (self.instance, self.round)

    def __str__(self):
        kind = f"rank {self.rank}" if self.is_worker else "a child of a worker"
        return (f"{kind} of round {self.round} (instance {self.instance[:6]}, {self.node}, "
                f"pid {self.pid}, {self.state})")


@dataclass
class Excuse:
    """A node that cannot end its processes, from `since` until `until`: its guardian is stopped
    with its agent, or is gone. If a guardian acted for the agent, only processes that the agent
    starts after it is woken are excused, until it has had time to notice that it was left out; the
    guardian had to end all others before another round began."""

    node: str
    children_only: bool
    since: float
    until: float = float("inf")
    started_from: int = 0  # ticks since boot: older processes are not excused

    def covers(self, process, now):
        return (process.node == self.node and self.since <= now <= self.until
                and process.start >= self.started_from
                and not (self.children_only and process.is_worker))


@dataclass
class Life:
    """One process over all looks."""

    process: Seen
    first: float
    last: float


class Checker:
    """Checks all rounds of an episode. `violations` lists each violation once."""

    def __init__(self):
        self.violations = []
        self.lives = {}  # identity: Life
        self.rounds = {}  # key: time of the first look with a worker of it
        self.excuses = []
        self.failed = set()  # keys of rounds in which a worker was made to fail by itself
        self.overlap_seconds = 0.0
        self.longest_gap = 0.0
        self._instances = []
        self._newest = {}  # instance: (round, restarts)
        self._facts = {}  # key: (world size, master, restarts)
        self._by_rank = {}  # (key, rank): identity
        self._suspects = set()
        self._told = set()
        self._overlap_since = None
        self._last_look = None

    def excuse(self, node, since, children_only=False):
        made = Excuse(node, children_only, since)
        self.excuses.append(made)
        return made

    def look(self, now, processes):
        if self._last_look is not None:
            self.longest_gap = max(self.longest_gap, now - self._last_look)
        self._last_look = now
        self.excuses = [each for each in self.excuses if each.until >= now]
        for process in processes:
            life = self.lives.get(process.identity)
            if life is None:
                self.lives[process.identity] = Life(process, now, now)
                if process.is_worker:
                    self._new_worker(now, process)
            else:
                life.last = now
        self._overlaps(now, processes)

    def _overlaps(self, now, processes):
        suspects = set()
        if len({process.key for process in processes}) > 1:
            blamed = [process for process in processes
                      if not any(each.covers(process, now) for each in self.excuses)]
            blamed.sort(key=lambda process: process.identity)
            for index, one in enumerate(blamed):
                for other in blamed[index + 1:]:
                    if one.key != other.key:
                        suspects.add((one.identity, other.identity))
        for pair in suspects & self._suspects:
            one, other = (self.lives[identity].process for identity in pair)
            kind = "workers" if one.is_worker and other.is_worker else "a child that was left"
            self._violation(("overlap", kind, *sorted((one.key, other.key))), now,
                            f"two rounds live at once ({kind}): {one}, beside {other}")
        certain = bool(suspects & self._suspects)
        if certain and self._overlap_since is None:
            self._overlap_since = now
        if self._overlap_since is not None:
            self.overlap_seconds = max(self.overlap_seconds, now - self._overlap_since)
            if not certain:
                self._overlap_since = None
        self._suspects = suspects

    def overlapping(self):
        return self._overlap_since is not None

    def _new_worker(self, now, process):
        key = process.key
        rank_key = (key, process.rank)
        if rank_key in self._by_rank:
            self._violation(("rank", rank_key), now, f"this rank was there before: {process}, and "
                            f"{self.lives[self._by_rank[rank_key]].process}")
        self._by_rank[rank_key] = process.identity
        if not 0 <= process.rank < process.world_size:
            self._violation(("range", rank_key), now,
                            f"{process}: the world has {process.world_size} ranks")
        facts = (process.world_size, process.master, process.restarts)
        if self._facts.setdefault(key, facts) != facts:
            self._violation(("facts", key), now, f"{process} has (world size, master, restarts) "
                            f"{facts}, others of its round {self._facts[key]}")
        if key not in self.rounds:
            self.rounds[key] = now
            # A stopped node may start late what it was about to start, and then ends it.
            if not any(each.covers(process, now) for each in self.excuses):
                self._new_round(now, process)

    def _new_round(self, now, process):
        instance = process.instance
        if instance not in self._instances:
            self._instances.append(instance)
        elif instance != self._instances[-1]:
            self._violation(("instance", process.key), now,
                            f"an instance that was over opens again: {process}")
        newest, restarts = self._newest.get(instance, (0, 0))
        if process.round <= newest:
            self._violation(("round", process.key), now,
                            f"round numbers do not grow: {process}, after round {newest}")
        if process.restarts < restarts:
            self._violation(("restarts", process.key), now, f"the restart count falls from "
                            f"{restarts} to {process.restarts}: {process}")
        # A round is charged at most once, and only if a worker failed by itself in it.
        failed = sum(1 for key in self.failed
                     if key[0] == instance and newest <= key[1] < process.round)
        if process.restarts - restarts > failed:
            self._violation(("charge", instance), now, f"{process.restarts - restarts} restarts "
                            f"are charged since round {newest}, in which {failed} rounds had a "
                            f"worker that failed: {process}")
        self._newest[instance] = (max(process.round, newest), max(process.restarts, restarts))

    def _violation(self, identity, now, text):
        if identity not in self._told:
            self._told.add(identity)
            self.violations.append((now, text))


def whole_round(processes):
    """The key of the only live round, if it has each rank 0..world-1 exactly once; otherwise None.
    """
    keys = {process.key for process in processes}
    if len(keys) != 1:
        return None
    workers = [process for process in processes if process.is_worker]
    if not workers or sorted(w.rank for w in workers) != list(range(workers[0].world_size)):
        return None
    return keys.pop()
