"""Processes that workers start outside their group and session: they end with their round."""

import os
import signal

import pytest

from tests.support.cluster import BIN, Program, WORKER, wait_for


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Strays:
    """Lets workers start processes that leave, and knows their numbers."""

    each = 3

    def __init__(self, cluster):
        self.cluster = cluster
        self.path = cluster.folder / "strays"
        self.script = cluster.folder / "stray.sh"
        self.script.write_text(f"echo $$ >>{self.path}\nexec sleep 1000\n")

    def order(self, rank):
        before = len(self.pids())
        quiet = f"/bin/sh {self.script} >/dev/null 2>&1"
        # In the worker's session's child; forked twice; forked twice, without any environment.
        self.cluster.order(rank, f"setsid {quiet} & (setsid {quiet} &); "
                                 f"(setsid env -i {quiet} &)")
        wait_for("the strays to run", lambda: len(self.pids()) == before + self.each)

    def pids(self):
        return [int(line) for line in self.path.read_text().split()] if self.path.exists() else []

    def alive(self):
        return [pid for pid in self.pids() if lives(pid)]


@pytest.fixture
def strays(cluster):
    made = Strays(cluster)
    yield made
    for pid in made.alive():
        os.kill(pid, signal.SIGKILL)


def test_no_stray_lives_beside_the_next_round(cluster, strays):
    agent = cluster.agent("", "--max-restarts", 2, workers=2)
    for round_number in (1, 2):
        cluster.started(round_number, 2)
        strays.order(0)
        strays.order(1)
        assert len(strays.alive()) == 6
        cluster.order(1, "exit 3")
        cluster.started(round_number + 1, 2)
        assert not strays.alive(), f"of {strays.pids()}, beside round {round_number + 1}"
    cluster.finish(2)
    assert agent.wait() == 0
    cluster.nothing_left()


def test_no_stray_outlives_success(cluster, strays):
    agent = cluster.agent("", workers=2)
    cluster.started(1, 2)
    strays.order(0)
    cluster.order(0, "exit 0")
    strays.order(1)
    assert len(strays.alive()) == 6, "they may live while a worker of the round does"
    cluster.order(1, "exit 0")
    assert agent.wait() == 0
    assert not strays.alive()
    cluster.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_stray_outlives_a_graceful_stop(cluster, strays, number):
    agent = cluster.agent("", workers=2, environment={"DDPRUN_TEST_TERM": "trap"})
    cluster.started(1, 2)
    strays.order(0)
    agent.kill(number)
    assert agent.wait() == 128 + number
    assert len(cluster.events("term")) == 2
    assert not strays.alive()
    cluster.nothing_left()


def test_no_stray_outlives_the_workers_of_an_isolated_node(cluster, strays):
    daemon = cluster.daemon()
    conf = "node_timeout=1,last_call_timeout=0.3"
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2",
                         conf=conf)
    workers = cluster.started(1, 2)
    strays.order(1)
    daemon.kill(signal.SIGSTOP)
    a.kill(signal.SIGSTOP)
    wait_for("node-b to kill its worker", lambda: not lives(int(workers[1].pid)))
    wait_for("its strays to die with it", lambda: not strays.alive(), 1)
    a.kill(signal.SIGCONT)
    daemon.kill(signal.SIGCONT)
    for agent in (a, b):
        agent.kill(signal.SIGTERM)
    for agent in (a, b):
        agent.wait()
    cluster.nothing_left(but=[daemon])


def test_a_ddprun_inside_a_worker_ends_with_its_own_workers(cluster):
    agent = cluster.agent("", "--max-restarts", 1, workers=1)
    cluster.started(1, 1)
    inner = f"{BIN / 'ddprun'} --standalone --no-python sleep 1000.5"
    cluster.order(0, f"(setsid {inner} >/dev/null 2>&1 &)")

    def inner_worker():
        return [pid for pid, line in cluster.marked().items() if line.startswith("sleep 1000.5")]

    pid = wait_for("the inner worker", inner_worker)[0]
    cluster.order(0, "exit 3")
    cluster.started(2, 1)
    assert not lives(pid)
    cluster.finish(1)
    assert agent.wait() == 0
    cluster.nothing_left()


def test_children_that_the_agent_had_before_it_was_ddprun_live_on(cluster, strays):
    line = [BIN / "ddprun", "--standalone", "--max-restarts", 1, "--no-python", WORKER]
    agent = Program(cluster, "node-a", line,
                    prefix=["bash", "-c", 'sleep 1000.7 & exec "$@"', "sh"])
    cluster.started(1, 1)
    before = [pid for pid, words in cluster.marked().items() if words.startswith("sleep 1000.7")]
    strays.order(0)
    cluster.order(0, "exit 3")
    cluster.started(2, 1)
    # Among strangers, one that has cleared its environment cannot be told from them.
    assert len(strays.alive()) == 1
    cluster.finish(1)
    assert agent.wait() == 0
    assert len(before) == 1 and lives(before[0])
    os.kill(before[0], signal.SIGKILL)
    cluster.nothing_left()
