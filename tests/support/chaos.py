"""One chaos episode: three agents and a daemon, planned faults, and checks from outside.

A dead process is started again, as by a scheduler. The checks: two rounds never live at once, and
the checker finds nothing else; after the faults there is a complete round again; agents end only if
they were told to, with the right exit code; in the end all exit with 0, and nothing is left.
"""

import os
import re
import signal
import socket
import time
from pathlib import Path

from tests.support.chaos_checks import Checker, whole_round
from tests.support.chaos_faults import Faults
from tests.support.chaos_plan import ENDS_RUN, NODES, steps_of
from tests.support.chaos_report import report
from tests.support.chaos_watch import Watch
from tests.support.cluster import LIMIT, ROOT, Cluster
from tests.support.ports import free_port

WORKER = ROOT / "tests" / "support" / "chaos_worker.sh"
BROKEN = re.compile(r"ddprun: internal error|cannot go on|terminate called|Sanitizer|"
                    r"runtime error|[Aa]ssertion|internal error|core dumped|std::")


class ChaosFailure(AssertionError):
    pass


class Node:
    """A node as the scheduler sees it."""

    def __init__(self, name):
        self.name = name
        self.agent = None  # the latest
        self.told = set()  # signals sent to this agent
        self.back_at = None


def sockets_of(pid):
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += os.readlink(entry).startswith("socket:")
        except FileNotFoundError:  # closed meanwhile
            pass
    return count


class Chaos:
    def __init__(self, setting, folder, say):
        self.setting = setting
        self.cluster = Cluster(folder)
        self.checker = Checker()
        self.watch = Watch(self.cluster.mark, self.checker)
        self.say_line = say
        self.log = []  # (wall clock, text)
        self.nodes = [Node(name) for name in NODES]
        self.daemon = None
        self.daemon_back_at = None
        self.daemon_told = set()
        self.node_holds_port = False  # a node's agent holds a daemon on our daemon's port
        self.port = 0
        self.back_after = 0.0
        self.disturbed_at = time.monotonic()  # when the run was last disturbed
        self.may_end_until = 0.0  # agents may leave until then, as the run was ended
        self.finishing = False
        self.faults = Faults(self)
        self.ticked_at = time.monotonic()
        self.stood_still = 0.0  # longest pause of this process, s: others may have paused

    def say(self, text):
        self.log.append((time.time(), text))
        self.say_line(text)

    def fail(self, text):
        told = report(self, text)
        (self.cluster.folder / "report").write_text(told)
        raise ChaosFailure(told)

    def disturbed(self):
        self.disturbed_at = time.monotonic()

    def start_daemon(self, recovery):
        try:
            self.daemon = self.cluster.daemon(self.port, recovery=f"{recovery:g}")
        except AssertionError as problem:
            if not self.setting.host_embeds or "in use" not in str(problem):
                raise
            self.node_holds_port = True
            self.daemon_back_at = time.monotonic() + 1
            return
        self.port = self.daemon.port
        self.node_holds_port = False
        self.daemon_back_at = None
        self.daemon_told = set()
        self.disturbed()
        self.say(f"daemon started, pid {self.daemon.pid}")

    def start_agent(self, node):
        setting = self.setting
        embeds = "never"
        if node is self.nodes[0] and (setting.embedded or setting.host_embeds):
            embeds = "always" if setting.embedded else "auto"
        environment = {"DDPRUN_TEST_TERM": setting.on_term}
        if setting.strays:
            environment["DDPRUN_TEST_STRAY"] = "1"
        node.agent = self.cluster.agent(
            node.name, "--max-restarts", 1000000, "--max-node-losses", 1000000,
            "--max-quick-failures", 0, "--children-grace", 0.5, "--evidence", 2,
            "--on-join", setting.on_join, "--embed-daemon", embeds,
            endpoint=f"127.0.0.1:{self.port}", nnodes=setting.nnodes, workers=setting.workers,
            run="chaos", conf=setting.conf, command=["--no-python", WORKER],
            environment=environment)
        node.told = set()
        node.back_at = None
        self.disturbed()
        self.say(f"{node.name} started, pid {node.agent.pid}")

    def supervise(self):
        now = time.monotonic()
        if self.daemon is not None:
            if self.daemon_back_at is None and not self.daemon.running():
                code = self.daemon.process.returncode
                self.say(f"daemon ended with {code}")
                if -code not in self.daemon_told:
                    self.fail(f"the daemon ended with {code}, and nobody told it to")
                self.daemon_back_at = now + self.back_after
            if self.daemon_back_at is not None and now >= self.daemon_back_at:
                self.start_daemon(self.setting.node_timeout)
        for node in self.nodes:
            if node.back_at is None and not node.agent.running():
                self.ended(node, node.agent.process.returncode)
                node.back_at = now + self.back_after
            if node.back_at is not None and now >= node.back_at and not self.finishing:
                self.start_agent(node)

    def ended(self, node, code):
        self.say(f"{node.name} ended with {code}")
        self.disturbed()
        allowed = {0} if self.finishing else set()
        if signal.SIGKILL in node.told:
            allowed.add(-signal.SIGKILL)
        if signal.SIGTERM in node.told:
            allowed |= {0, 128 + signal.SIGTERM}
        if signal.SIGINT in node.told:
            allowed.add(128 + signal.SIGINT)
        if time.monotonic() < self.may_end_until:
            allowed |= {0, 128 + signal.SIGTERM, 128 + signal.SIGINT}
        if code not in allowed:
            self.fail(f"{node.name} ended with {code}, and nobody told it to")

    def tick(self):
        """Must be called in every wait: runs the scheduler, and checks what was seen."""
        now = time.monotonic()
        self.stood_still = max(self.stood_still, now - self.ticked_at)
        self.ticked_at = now
        self.supervise()
        self.faults.due()
        with self.watch.lock:
            wrong = bool(self.checker.violations)
        if wrong:
            self.let_it_play_out()
            self.fail("\n".join(text for _, text in self.checker.violations))
        time.sleep(0.005)

    # The time for which two rounds live at once helps to find the cause.
    def let_it_play_out(self):
        until = time.monotonic() + 15
        while self.checker.overlapping() and time.monotonic() < until:
            self.watch.latest
            time.sleep(0.02)

    def wait(self, what, condition, limit=None, looks=2):
        """Waits until `condition` holds in `looks` looks; the limit starts at the last disturbance.
        """
        limit = LIMIT if limit is None else limit
        since = None
        started = time.monotonic()
        while True:
            self.tick()
            look = self.watch.latest
            if not condition(look):
                since = None
            else:
                since = since or look.number
                if look.number >= since + looks - 1:
                    return
            now = time.monotonic()
            if now - max(self.disturbed_at, self.faults.last) > limit or now - started > 3 * limit:
                self.fail(f"waited {limit:.0f} s in vain for {what}")

    def is_whole(self, look):
        """All programs run, none is stopped, and one round is complete with all nodes that should
        be in."""
        if self.daemon_back_at is not None and not self.node_holds_port:
            return False
        if self.faults.pending(look):
            return False
        if any(node.back_at is not None for node in self.nodes):
            return False
        if any(look.guardian(node.agent.pid) is None for node in self.nodes):
            return False
        if whole_round(look.processes) is None:
            return False
        nodes = {process.node for process in look.processes if process.is_worker}
        all_wanted = self.setting.on_join == "restart" or self.setting.nodes_min == len(NODES)
        return len(nodes) >= (len(NODES) if all_wanted else self.setting.nodes_min)

    def start(self):
        self.port = free_port()
        if not self.setting.embedded:
            self.start_daemon(0)
            self.idle_sockets = sockets_of(self.daemon.pid)
        for node in self.nodes:
            self.start_agent(node)
        self.wait("the first round", self.is_whole)

    def run(self, seconds):
        self.start()
        until = time.monotonic() + seconds
        for step in steps_of(self.setting):
            if time.monotonic() >= until:
                break
            self.until_time_for(step)
            self.back_after = step.back_after
            self.say(str(step))
            if step.kind in ENDS_RUN:
                self.may_end_until = float("inf")
            self.faults.strike(step)
        self.wait("a whole round at the end", self.is_whole)
        self.finish()

    def until_time_for(self, step):
        if step.when == "settled":
            self.wait("a whole round after the faults", self.is_whole)
            # By now the fault that ends the run has taken effect.
            self.may_end_until = min(self.may_end_until, time.monotonic() + 5)
        elif step.when == "gap":
            self.wait("the last worker of a round to be gone", lambda look: self.is_whole(look)
                      or not any(process.is_worker for process in look.processes), looks=1)
        elif step.when == "round":
            known = len(self.checker.rounds)
            self.wait("a new round", lambda look: len(self.checker.rounds) > known
                      or self.is_whole(look), looks=1)
        until = time.monotonic() + step.delay
        while time.monotonic() < until:
            self.tick()

    def finish(self):
        self.say(f"the workers are told to finish; the daemon: {self.setting.finish}")
        self.finishing = True
        self.stood_still = 0.0
        rounds = set(self.checker.rounds)
        (self.cluster.folder / "finish").touch()
        self.faults.at_the_finish()
        told = set()

        def all_ended(look):
            for process in look.processes:
                if process.is_worker and process.pid not in told and self.order(process.pid, 0):
                    told.add(process.pid)
            return not any(node.agent.running() for node in self.nodes)

        self.wait("all agents to end", all_ended)
        late = set(self.checker.rounds) - rounds
        if late and self.stood_still > self.setting.node_timeout / 4:
            self.say(f"this machine stood still for {self.stood_still:.1f} s: nodes were lost")
        elif late:
            self.fail(f"the run was about to finish, and started a round again: {sorted(late)}")
        self.nothing_is_left()

    def order(self, pid, code):
        """Tells a worker to exit with this code. False if the worker does not read orders now."""
        try:
            handle = os.open(self.cluster.folder / f"orders.{pid}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        os.write(handle, f"{code}\n".encode())
        os.close(handle)
        return True

    def nothing_is_left(self):
        self.wait("the daemon to be there", lambda look: self.daemon_back_at is None)
        kept = set() if self.daemon is None else {self.daemon.pid}
        self.wait("all processes to be gone",
                  lambda look: not look.processes and set(look.others) <= kept)
        ports = {life.process.master.rsplit(":", 1)[1] for life in self.checker.lives.values()}
        if self.daemon is None:
            ports.add(str(self.port))
        else:
            self.wait("the daemon's connections to be closed",
                      lambda look: sockets_of(self.daemon.pid) <= self.idle_sockets)
            self.daemon.kill(signal.SIGTERM)
            self.daemon.wait()
        for port in ports - {""}:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                    self.fail(f"somebody still listens on port {port}")
        for program in self.cluster.programs:
            found = BROKEN.search(program.err())
            if found:
                self.fail(f"{program.name} says {found.group()!r}: {program.err_path}")

    def close(self):
        self.watch.stop()
        self.faults.wake_all()
        self.cluster.close()
