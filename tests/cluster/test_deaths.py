"""SIGKILL and SIGSTOP of each process in turn, and what is left after that."""

import os
import signal

import pytest

from tests.support.cluster import GUARDIAN, LOST_SOON, NONE_IS_LOST, wait_for
from tests.support.ports import free_port

pytestmark = pytest.mark.main_path


def children_of(pid):
    """Direct children of a process: {pid: command line}."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        found = file.read().split()
    lines = {}
    for child in found:
        try:
            with open(f"/proc/{child}/cmdline") as file:
                lines[int(child)] = file.read().replace("\0", " ")
        except OSError:
            pass
    return lines


def guardian_of(cluster, agent):
    """Finds the guardian by the name that it gives itself."""
    def look():
        workers = {int(event.pid) for event in cluster.events("start")}
        for pid, line in cluster.marked().items():
            if pid != agent.pid and pid not in workers and pid in children_of(agent.pid):
                if GUARDIAN in line:
                    return pid
        return None

    return wait_for("the guardian", look)


def two_nodes(cluster, *arguments, nnodes="1:2", workers=2, conf=NONE_IS_LOST, **more):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = cluster.nodes("node-a", "node-b", arguments=arguments, endpoint=endpoint,
                           nnodes=nnodes, workers=workers, conf=conf, **more)
    return daemon, agents


def test_killed_agent_leaves_no_worker_and_the_other_node_goes_on(cluster):
    daemon, (a, b) = two_nodes(cluster)
    before = cluster.started(1, 4)
    lost = {int(w.pid) for w in before if w.node == "node-a"}
    a.kill()
    a.wait()
    wait_for("the dead agent's workers to be gone", lambda: not lost & set(cluster.marked()))
    after = cluster.started(2, 2)
    assert {w.node for w in after} == {"node-b"}
    assert after[0].restarts == "0", "a lost node is not charged to --max-restarts"
    b.says("node-a")
    cluster.finish(2)
    assert b.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_killed_guardian_costs_nothing(cluster):
    daemon, (a, b) = two_nodes(cluster, nnodes=2, workers=1)
    cluster.started(1, 2)
    guardian = guardian_of(cluster, a)
    os.kill(guardian, signal.SIGKILL)
    a.says("guardian")
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)
    assert len(cluster.events("start")) == 2
    cluster.nothing_left(but=[daemon])


def test_agent_killed_after_its_guardian_leaves_no_worker(cluster):
    agent = cluster.agent("", workers=2)
    cluster.started(1, 2)
    os.kill(guardian_of(cluster, agent), signal.SIGKILL)
    agent.says("guardian")
    # Its environment has the mark that all these tests look for.
    guardian_of(cluster, agent)
    agent.kill()
    cluster.nothing_left()


def test_daemon_killed_and_started_again_workers_do_not_notice(cluster):
    daemon, agents = two_nodes(cluster, "--max-restarts", 1, nnodes=2, workers=1)
    cluster.started(1, 2)
    daemon.kill()
    daemon.wait()
    for agent in agents:
        agent.says("daemon")
    again = cluster.daemon(daemon.port, "--state-dir", "none", recovery=10)
    for agent in agents:
        agent.says("again")
    again.says("round 1 goes on: all its nodes are back")
    assert len(cluster.events("start")) == 2, "no worker was started anew"
    cluster.order(0, "exit 3")
    # It has seen all of round 1, and no later number was given out, so none is skipped.
    after = cluster.started(2, 2)
    assert {w.restarts for w in after} == {"1"}
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    cluster.nothing_left(but=[again])


def test_daemon_that_stays_dead_costs_no_worker_while_the_nodes_see_each_other(cluster):
    daemon, agents = two_nodes(cluster, nnodes=2, workers=1, conf=LOST_SOON)
    cluster.started(1, 2)
    daemon.kill()
    daemon.wait()
    # Past the isolation limit of 6 s workers live by their agents' tethers. The test waits for a
    # line that the agents print each time the daemon could not be reached for so long.
    for agent in agents:
        agent.says(r"no rendezvous daemon at .* for (7|8|9|\d\d)(\.\d+)? s")
    assert len(cluster.events("start")) == 2
    assert not cluster.events("term")
    again = cluster.daemon(daemon.port, recovery=10)
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    cluster.nothing_left(but=[again])


def test_agent_that_hosts_the_daemon_is_killed_the_others_end_with_a_clear_line(cluster):
    endpoint = f"127.0.0.1:{free_port()}"
    conf = f"{NONE_IS_LOST},join_timeout=30"
    a = cluster.agent("node-a", endpoint=endpoint, nnodes=2, workers=1, conf=conf)
    a.says("1 of 2 nodes")
    b = cluster.agent("node-b", endpoint=endpoint, nnodes=2, workers=1, conf=conf)
    cluster.started(1, 2)
    a.kill()
    assert b.wait() == 69
    assert endpoint in b.err(), b.err()
    cluster.nothing_left()


def test_a_stopped_agent_is_lost_and_fenced_when_it_wakes(cluster):
    daemon, (a, b) = two_nodes(cluster, workers=1, conf=LOST_SOON)
    cluster.started(1, 2)
    b.kill(signal.SIGSTOP)
    after = cluster.started(2, 1)
    assert after[0].node == "node-a"
    b.kill(signal.SIGCONT)
    # It wakes up in a round that is over: its worker is killed, and it joins again and waits.
    first = [e for e in cluster.events("start") if e.node == "node-b"][0]
    wait_for("the fenced worker to be gone", lambda: int(first.pid) not in cluster.marked())
    cluster.order(0, "exit 0")
    assert a.wait() == 0
    assert b.wait() == 0
    cluster.nothing_left(but=[daemon])
