"""Ctrl-C and SIGTERM at every stage: workers end, agents leave with 128 + signal, nothing stays."""

import signal

import pytest

from tests.support.cluster import wait_for


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_waiting_for_nodes(cluster, number):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    agent.says("1 of 2 nodes")
    agent.kill(number)
    assert agent.wait() == 128 + number
    cluster.nothing_left(but=[daemon])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_nobody_answers(cluster, number):
    agent = cluster.agent("node-a", endpoint="127.0.0.1:1", nnodes=2, conf="is_host=0")
    agent.says("127.0.0.1:1")
    agent.kill(number)
    assert agent.wait() == 128 + number
    cluster.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_running(cluster, number):
    agent = cluster.agent("", workers=2, environment={"DDPRUN_TEST_TERM": "trap"})
    cluster.started(1, 2)
    agent.kill(number)
    if number == signal.SIGHUP:
        # worker.sh does not trap SIGHUP: it dies of it.
        assert agent.wait() == 129
    else:
        assert agent.wait() == 128 + number
        assert len(cluster.events("term")) == 2, "workers are asked before they are killed"
    cluster.nothing_left()


def test_twice_kills_workers_that_do_not_end(cluster):
    agent = cluster.agent("", workers=2, environment={"DDPRUN_TEST_TERM": "ignore"})
    cluster.started(1, 2)
    agent.kill(signal.SIGINT)
    wait_for("both workers to be asked", lambda: len(cluster.events("term")) == 2)
    agent.kill(signal.SIGINT)
    assert agent.wait() == 130
    cluster.nothing_left()


def test_ctrl_c_at_one_node_stops_the_whole_run(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = [cluster.agent(n, endpoint=endpoint, nnodes=2) for n in ("node-a", "node-b")]
    cluster.started(1, 2)
    agents[1].kill(signal.SIGINT)
    assert [agent.wait() for agent in agents] == [130, 130]
    cluster.nothing_left(but=[daemon])


def test_sigterm_at_one_node_drains_it_and_the_others_go_on(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2",
                  conf="last_call_timeout=0.2")
    a = cluster.agent("node-a", **common)
    b = cluster.agent("node-b", **common)
    cluster.started(1, 2)
    b.kill(signal.SIGTERM)
    assert b.wait() == 0
    after = cluster.started(2, 1)
    assert after[0].node == "node-a" and after[0].restarts == "0"
    cluster.finish(1)
    assert a.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_sigterm_to_all_nodes_ends_the_run(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = [cluster.agent(n, endpoint=endpoint, nnodes=2) for n in ("node-a", "node-b")]
    cluster.started(1, 2)
    for agent in agents:
        agent.kill(signal.SIGTERM)
    codes = [agent.wait() for agent in agents]
    assert 143 in codes and set(codes) <= {0, 143}, codes
    cluster.nothing_left(but=[daemon])
