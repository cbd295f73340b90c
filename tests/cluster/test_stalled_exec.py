"""The exec of a worker hangs, as on a shared file system that does not answer."""

import signal

import pytest

from tests.support.cluster import LIMIT, LOST_SOON, wait_for
from tests.support.exec_gate import gated_worker


@pytest.fixture
def gated(cluster):
    with gated_worker(cluster.folder) as made:
        yield made


def test_a_node_whose_exec_hangs_isolates_itself_in_time(cluster, make_hosts, gated):
    program, gate = gated
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    endpoint = f"{hosts[0].address}:{daemon.port}"
    common = dict(endpoint=endpoint, nnodes="1:2", workers=2, conf=LOST_SOON)
    a = cluster.agent("node-1", host=hosts[1], **common)
    a.says("here:.*node-1")
    b = cluster.agent("node-2", host=hosts[2], command=["--no-python", program], **common)
    gate.let_pass(LIMIT)  # the first worker of node-2 runs, the second hangs
    wait_for("the second exec to hang", gate.waits)
    first = wait_for("the first worker of node-2",
                     lambda: [e for e in cluster.events("start") if e.node == "node-2"])[0]
    assert int(first.pid) in cluster.marked()
    hosts[2].cut()
    wait_for("round 2", lambda: [e for e in cluster.events("start") if e.round == "2"])
    assert int(first.pid) not in cluster.marked(), "two rounds live at once"
    gate.close()
    hosts[2].heal()
    b.says("again")
    assert len([e for e in cluster.events("start") if e.node == "node-2"]) == 1
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_an_exec_hangs_ends_the_run_at_once(cluster, gated, number):
    program, gate = gated
    agent = cluster.agent("", workers=3, command=["--no-python", program])
    gate.let_pass(LIMIT)
    wait_for("the second exec to hang", gate.waits)
    agent.kill(number)
    assert agent.wait() == 128 + number
    cluster.nothing_left()
    assert len(cluster.events("start")) <= 1, "no further worker was started"


def test_an_agent_killed_while_an_exec_hangs_leaves_nothing(cluster, gated):
    program, gate = gated
    agent = cluster.agent("", workers=3, command=["--no-python", program])
    gate.let_pass(LIMIT)
    wait_for("the second exec to hang", gate.waits)
    agent.kill()
    agent.wait()
    cluster.nothing_left()


def test_an_exec_that_goes_on_costs_nothing(cluster, gated):
    program, gate = gated
    agent = cluster.agent("", workers=2, command=["--no-python", program])
    gate.let_pass(LIMIT)
    wait_for("the second exec to hang", gate.waits)
    gate.let_pass(LIMIT)
    cluster.started(1, 2)
    cluster.finish(2)
    assert agent.wait() == 0
    cluster.nothing_left()
