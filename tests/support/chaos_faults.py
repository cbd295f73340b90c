"""The faults of the chaos test: how each kind of fault is applied to real processes."""

import os
import signal
import time

from tests.support.chaos_plan import NODES
from tests.support.chaos_watch import stat_of
from tests.support.cluster import LIMIT

# On a machine that is three times as slow everything takes three times as long.
SLOWNESS = LIMIT / 60
# The time within which a guardian has killed what its agent left behind.
GUARDIAN_LIMIT = 2.0


def ticks_now():
    """Now, in the unit of start times in /proc/PID/stat."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


class Faults:
    """Applies faults, remembers which processes must die of them, and wakes those that it stopped.
    """

    def __init__(self, chaos):
        self.chaos = chaos
        self.must_die = set()  # (pid, start)
        self.stopped = []  # (until, pid, start, what, excuse or None)
        self.sweep = {}  # node name: (until when, start ticks: older strays are ended here)
        self.last = 0.0  # when a process was last struck or woken

    @property
    def setting(self):
        return self.chaos.setting

    # The time that a stopped node needs to notice that it was stopped, and to end its workers.
    @property
    def allowance(self):
        return 2 * self.setting.heartbeat + 1.0 * SLOWNESS

    def strike(self, step):
        self.last = time.monotonic()
        getattr(self, step.kind)(step, self.chaos.nodes[step.node])
        self.chaos.disturbed()

    def pending(self, look):
        """True until every fault has taken effect."""
        self.must_die &= look.identities()
        return bool(self.stopped or self.must_die or self.sweep)

    def send(self, pid, start, number, what, group=False):
        """Returns True if it was still the same process."""
        stat = stat_of(pid)
        if stat is None or stat.start != start or not stat.lives:
            self.chaos.say(f"  {what}: pid {pid} is gone")
            return False
        try:
            (os.killpg if group else os.kill)(pid, number)
        except ProcessLookupError:
            return False
        self.chaos.say(f"  {signal.Signals(number).name} to {what}, pid {pid}")
        return True

    def kill(self, pid, start, what):
        if self.send(pid, start, signal.SIGKILL, what):
            self.must_die.add((pid, start))

    def stop(self, pid, start, what, hold, node=None, children_only=False):
        """Sends SIGSTOP, and SIGCONT after `hold`. `node` is given for an agent or a guardian.
        While an agent is stopped its guardian must act for it, so it is only excused after it
        wakes, and only for what it starts then."""
        if any((pid, start) == (each[1], each[2]) for each in self.stopped):
            return
        excuse = None
        if node is not None:
            is_excused = children_only or not self.is_guarded(node)
            with self.chaos.watch.lock:
                since = time.monotonic() if is_excused else float("inf")
                excuse = self.chaos.checker.excuse(node.name, since, children_only)
        if self.send(pid, start, signal.SIGSTOP, f"{what} for {hold:.2f} s"):
            self.stopped.append((time.monotonic() + hold, pid, start, what, excuse))
        elif excuse is not None:
            excuse.until = 0.0

    def due(self):
        """Wakes processes whose time has come, and ends the excuses of those that died meanwhile.
        """
        now = time.monotonic()
        left = []
        for entry in self.stopped:
            until, pid, start, what, excuse = entry
            stat = stat_of(pid)
            gone = stat is None or stat.start != start or not stat.lives
            if not gone and now < until:
                left.append(entry)
                continue
            if excuse is not None and excuse.since == float("inf"):
                excuse.started_from = ticks_now()
            if not gone:
                self.send(pid, start, signal.SIGCONT, what)
            if excuse is not None:
                excuse.since = min(excuse.since, now)
                excuse.until = now + self.allowance
                if excuse.children_only:
                    excuse.until += GUARDIAN_LIMIT
            self.last = now
        self.stopped = left
        self.sweep_strays(now)

    def is_guarded(self, node):
        """True if a running guardian can act for this agent while the agent is stopped."""
        guardian = self.chaos.watch.latest.guardian(node.agent.pid)
        return (guardian is not None and guardian not in self.must_die
                and all(guardian != (each[1], each[2]) for each in self.stopped))

    def unguarded(self, node):
        """Agent and guardian are stopped or gone together, so nothing can act for the node."""
        for _, _, _, what, excuse in self.stopped:
            if what == node.name and excuse is not None:
                excuse.since = min(excuse.since, time.monotonic())

    def wake_all(self):
        for _, pid, start, what, _ in self.stopped:
            self.send(pid, start, signal.SIGCONT, what)

    def worker(self, step, node):
        """The drawn worker of the latest round on this node, or None."""
        workers = self.chaos.watch.latest.workers(node.name)
        if not workers:
            self.chaos.say(f"  no worker on {node.name}")
            return None
        newest = [each for each in workers if each.round == workers[-1].round]
        return newest[min(int(step.local * len(newest)), len(newest) - 1)]

    def agent(self, node):
        """(pid, start) of a running agent, or None."""
        if not node.agent.running():
            self.chaos.say(f"  {node.name} does not run")
            return None
        stat = stat_of(node.agent.pid)
        return stat and (node.agent.pid, stat.start)

    def tell_agent(self, node, number):
        found = self.agent(node)
        if found is None:
            return False
        node.told.add(number)
        if self.send(*found, number, node.name):
            self.must_die.add(found)
        return True

    def daemon_process(self):
        """(pid, start, name) of the daemon, or of the agent that contains it."""
        if self.setting.embedded:
            found = self.agent(self.chaos.nodes[0])
            return found and (*found, NODES[0])
        if not self.chaos.daemon.running():
            self.chaos.say("  the daemon does not run")
            return None
        stat = stat_of(self.chaos.daemon.pid)
        return stat and (self.chaos.daemon.pid, stat.start, "the daemon")

    # These are worker failures: only the restarts after them are charged.
    def failing_worker(self, step, node):
        worker = self.worker(step, node)
        if worker:
            with self.chaos.watch.lock:
                self.chaos.checker.failed.add(worker.key)
        return worker

    def worker_kill(self, step, node):
        worker = self.failing_worker(step, node)
        if worker:
            self.kill(*worker.identity, f"rank {worker.rank} on {node.name}")

    def worker_exit(self, step, node):
        worker = self.failing_worker(step, node)
        if worker and self.chaos.order(worker.pid, step.code):
            self.chaos.say(f"  exit {step.code} to rank {worker.rank} on {node.name}, "
                           f"pid {worker.pid}")
            self.must_die.add(worker.identity)

    def worker_term(self, step, node):
        worker = self.failing_worker(step, node)
        what = worker and f"the group of rank {worker.rank} on {node.name}"
        if worker and self.send(*worker.identity, signal.SIGTERM, what, group=True):
            self.must_die.add(worker.identity)

    def worker_stop(self, step, node):
        worker = self.worker(step, node)
        if worker:
            self.stop(*worker.identity, f"rank {worker.rank} on {node.name}", step.hold)

    def agent_kill(self, step, node):
        # Without a guardian nothing ends processes that have left the worker's session.
        look = self.chaos.watch.latest
        guardian = look.guardian(node.agent.pid)
        if self.setting.strays and (guardian is None or guardian in self.must_die):
            self.strays_are_nobodys(node)
        if self.tell_agent(node, signal.SIGKILL):
            self.must_die |= {each.identity for each in look.of(node.name)}

    def agent_term(self, step, node):
        self.tell_agent(node, signal.SIGTERM)

    def workers_term(self, node):
        for worker in self.chaos.watch.latest.workers(node.name):
            self.send(*worker.identity, signal.SIGTERM, f"rank {worker.rank} on {node.name}",
                      group=True)

    def node_term(self, step, node):
        self.tell_agent(node, signal.SIGTERM)
        self.workers_term(node)

    def node_term_workers_first(self, step, node):
        if self.agent(node):
            self.workers_term(node)
            self.tell_agent(node, signal.SIGTERM)

    def agent_stop(self, step, node):
        found = self.agent(node)
        if found:
            self.stop(*found, node.name, step.hold, node)

    def node_kill(self, step, node):
        self.agent_kill(step, node)
        self.guardian_kill(step, node)
        for process in self.chaos.watch.latest.of(node.name):
            self.kill(*process.identity, f"a process of {node.name}")

    def all_agents_kill(self, step, node):
        for each in self.chaos.nodes:
            self.agent_kill(step, each)

    def all_agents_stop(self, step, node):
        for each in self.chaos.nodes:
            self.agent_stop(step, each)

    def run_interrupt(self, step, node):
        self.tell_agent(node, signal.SIGINT)

    def run_term(self, step, node):
        for each in self.chaos.nodes:
            self.tell_agent(each, signal.SIGTERM)

    def guardian_kill(self, step, node):
        guardian = self.chaos.watch.latest.guardian(node.agent.pid)
        if guardian is None:
            self.chaos.say(f"  no guardian on {node.name}")
            return
        if self.setting.strays and signal.SIGKILL in node.told:
            self.strays_are_nobodys(node)
        self.kill(*guardian, f"the guardian of {node.name}")
        self.unguarded(node)

    def guardian_stop(self, step, node):
        guardian = self.chaos.watch.latest.guardian(node.agent.pid)
        if guardian is not None:
            self.stop(*guardian, f"the guardian of {node.name}", step.hold, node,
                      children_only=True)
            self.unguarded(node)

    # Agent and guardian are both killed, so nothing ends processes that have left the session.
    def strays_are_nobodys(self, node):
        now = time.monotonic()
        with self.chaos.watch.lock:
            excuse = self.chaos.checker.excuse(node.name, now, children_only=True)
        excuse.until = now + GUARDIAN_LIMIT + self.allowance
        self.sweep[node.name] = (now + GUARDIAN_LIMIT, ticks_now())

    def sweep_strays(self, now):
        for name, (until, ticks) in list(self.sweep.items()):
            for process in self.chaos.watch.latest.of(name):
                if not process.is_worker and process.start <= ticks:
                    self.kill(*process.identity, f"a child that is nobody's, of {name}")
            if now > until:
                del self.sweep[name]

    def daemon_kill(self, step, node):
        if self.setting.embedded:
            self.agent_kill(step, self.chaos.nodes[0])
            return
        found = self.daemon_process()
        if found:
            self.chaos.daemon_told.add(signal.SIGKILL)
            self.kill(*found)

    def daemon_stop(self, step, node):
        found = self.daemon_process()
        if found:
            what = self.chaos.nodes[0] if self.setting.embedded else None
            self.stop(*found, step.hold, what)

    def at_the_finish(self):
        """A standalone daemon may die, or be stopped, while the workers finish."""
        if self.setting.embedded or self.setting.finish == "quiet":
            return
        found = self.daemon_process()
        if found is None:
            return
        pid, start, what = found
        if self.setting.finish == "kill":
            self.chaos.daemon_told.add(signal.SIGKILL)
            self.kill(pid, start, what)
        else:
            self.stop(pid, start, what, self.setting.node_timeout)
