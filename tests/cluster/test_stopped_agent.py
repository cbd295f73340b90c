"""An agent that stands still (SIGSTOP, a debugger, a page fault on a disk that hangs) while its
workers run: its guardian ends them before another round may begin."""

import os
import re
import resource
import signal
import time
from pathlib import Path

import pytest

from tests.cluster.test_deaths import guardian_of, two_nodes
from tests.support.chaos_watch import stat_of
from tests.support.cluster import LOST_SOON, NONE_IS_LOST, wait_for
from tests.support.ports import free_port

STRIKE = ("ddprun guardian: the agent was suspended for longer than isolation_limit; "
          "killed 1 worker ")
WHY = "this ddprun was suspended"


def lives(pid):
    stat = stat_of(pid)
    return stat is not None and stat.lives


def worker_of(started, node):
    return next(int(event.pid) for event in started if event.node == node)


@pytest.mark.parametrize("stopped_is_leader", [False, True])
def test_no_worker_of_a_stopped_agent_lives_beside_the_next_round(cluster, stopped_is_leader):
    daemon, (a, b) = two_nodes(cluster, workers=1, conf=LOST_SOON)
    before = cluster.started(1, 2)
    still, other = (a, b) if stopped_is_leader else (b, a)
    old = worker_of(before, still.name)
    still.kill(signal.SIGSTOP)
    after = cluster.started(2, 1)
    assert after[0].node == other.name
    assert not lives(old), "it is gone before another round begins"
    assert stat_of(still.pid).state == "T"
    still.says(STRIKE)
    assert WHY not in still.err()
    still.kill(signal.SIGCONT)
    still.says(WHY)
    # The agent is back, and the run goes on without the other node.
    other.kill(signal.SIGTERM)
    assert other.wait() == 0
    again = cluster.started(3, 1)
    assert again[0].node == still.name
    assert again[0].restarts == "0", "no failure of a worker"
    cluster.finish(1)
    assert still.wait() == 0
    assert "SIGKILL" not in still.err(), "its own workers' end is no failure"
    cluster.nothing_left(but=[daemon])


def test_an_agent_that_hosts_the_daemon_and_stands_still_keeps_no_worker(cluster):
    endpoint = f"127.0.0.1:{free_port()}"
    conf = f"{LOST_SOON},join_timeout=60"
    a = cluster.agent("node-a", endpoint=endpoint, nnodes=2, workers=1, conf=conf)
    a.says("1 of 2 nodes")
    b = cluster.agent("node-b", endpoint=endpoint, nnodes=2, workers=1, conf=conf)
    old = [int(event.pid) for event in cluster.started(1, 2)]
    a.kill(signal.SIGSTOP)
    wait_for("the workers of both to be gone", lambda: not any(lives(pid) for pid in old))
    a.says(STRIKE)
    a.kill(signal.SIGCONT)
    assert {event.restarts for event in cluster.started(2, 2)} == {"0"}
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)
    cluster.nothing_left()


def test_an_agent_that_is_stopped_for_a_moment_keeps_its_workers(cluster):
    daemon, (a, b) = two_nodes(cluster, workers=1, conf=NONE_IS_LOST)
    cluster.started(1, 2)
    for agent in (a, b):
        agent.kill(signal.SIGSTOP)
        time.sleep(1)
        agent.kill(signal.SIGCONT)
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)
    assert len(cluster.events("start")) == 2
    cluster.nothing_left(but=[daemon])


def test_an_agent_that_stood_still_while_workers_were_to_end_kills_them_in_time(cluster):
    """The time that it has lost counts only once; otherwise the workers' grace would never end."""
    agent = cluster.agent("", workers=2, conf=f"{NONE_IS_LOST},stop_grace=4",
                          environment={"DDPRUN_TEST_TERM": "ignore"})
    cluster.started(1, 2)
    cluster.order(1, "exit 3")
    wait_for("rank 0 to be asked to end", lambda: cluster.events("term"))
    agent.kill(signal.SIGSTOP)
    time.sleep(2)  # past a heartbeat, so it wakes up late
    agent.kill(signal.SIGCONT)
    assert agent.wait() == 3
    assert "rank 0 had to be killed" in agent.err(), agent.err()
    cluster.nothing_left()


def test_a_guardian_that_stands_still_is_replaced_and_the_new_one_knows_the_limit(cluster):
    # 8 s without a beat is the limit; a guardian that does not read for 3 s is replaced
    daemon, (a, b) = two_nodes(cluster, workers=1, conf="node_timeout=10")
    cluster.started(1, 2)
    guardian = guardian_of(cluster, a)
    os.kill(guardian, signal.SIGSTOP)
    a.says("the guardian does not read its pipe")
    a.says("starting it again")
    assert guardian_of(cluster, a) != guardian
    # The new guardian knows the limit, and ends what a stopped agent leaves behind.
    old = [int(event.pid) for event in cluster.events("start") if event.node == "node-a"]
    a.kill(signal.SIGSTOP)
    wait_for("the workers to be gone", lambda: not any(lives(pid) for pid in old))
    a.kill(signal.SIGCONT)
    a.says(WHY)
    for agent in (a, b):
        agent.kill(signal.SIGTERM)
    for agent in (a, b):
        agent.wait()
    cluster.nothing_left(but=[daemon])


def test_a_guardian_waits_for_no_disk(cluster):
    """It needs no file and no page of its program from a server that hangs."""
    if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY and os.getuid():
        pytest.skip("this user may not lock a program into memory (ulimit -l)")
    daemon, (a, _) = two_nodes(cluster, workers=1)
    cluster.started(1, 2)
    process = Path(f"/proc/{guardian_of(cluster, a)}")

    def kilobytes(name):
        return int(re.search(rf"^{name}:\s+(\d+) kB", (process / "status").read_text(), re.M)[1])

    wait_for("its program to be locked", lambda: kilobytes("VmLck") >= kilobytes("RssFile") > 0)
    held = {int(each.name): os.readlink(each).split(":")[0] for each in (process / "fd").iterdir()}
    assert held.keys() == {0, 1, 2} and held[0] == held[1] == "pipe", held  # 2: for its last words
    assert os.readlink(process / "cwd") == "/"
    cluster.finish(2)
    assert a.wait() == 0
    cluster.nothing_left(but=[daemon])
