"""Which nodes may be in a run: late nodes, spares, names, and settings that differ."""

import re

import pytest

from tests.support.cluster import wait_for
from tests.support.ports import free_port

pytestmark = pytest.mark.main_path


def test_a_late_node_starts_the_round(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    a = cluster.agent("node-a", endpoint=endpoint, nnodes=2)
    a.says(rf"run test at {endpoint}: waiting for 1 of 2 nodes, 10 min left; "
           r"here: node-a \(1 worker\)")
    assert not cluster.events("start")
    b = cluster.agent("node-b", endpoint=endpoint, nnodes=2)
    cluster.started(1, 2)
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_min_nodes_start_after_the_last_call(cluster):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:4",
                          conf="last_call_timeout=0.2")
    cluster.started(1, 1)
    cluster.finish(1)
    assert agent.wait() == 0


def test_a_spare_takes_the_place_of_a_lost_node(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    common = dict(endpoint=endpoint, nnodes=2)
    a, b = cluster.nodes("node-a", "node-b", arguments=["--spares", 1], **common)
    cluster.started(1, 2)
    c = cluster.agent("node-c", "--spares", 1, **common)
    c.says("this node waits as a spare: .*; it steps in when a node is lost")
    b.kill()
    after = cluster.started(2, 2)
    assert [w.node for w in after] == ["node-a", "node-c"]
    for agent in (a, c):
        agent.says(r"node-b was replaced by node-c \(node loss 1 of 10 within an hour\)")
    cluster.finish(2)
    assert (a.wait(), c.wait()) == (0, 0)
    cluster.nothing_left(but=[daemon])


def test_a_node_beyond_max_is_refused(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    a = cluster.agent("node-a", endpoint=endpoint)
    cluster.started(1, 1)
    b = cluster.agent("node-b", endpoint=endpoint)
    assert b.wait() == 78
    assert "--spares" in b.err(), b.err()
    assert "give it another --rdzv-id, because this one is in use" in b.err(), b.err()
    cluster.finish(1)
    assert a.wait() == 0


def test_two_agents_on_one_host_need_no_names(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = [cluster.agent("", endpoint=endpoint, nnodes=2) for _ in range(2)]
    workers = cluster.started(1, 2)
    assert workers[0].node != workers[1].node
    for agent in agents:
        agent.says("warning: .* are agents of this run on one host: .*--node-id")
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]


def test_the_same_explicit_node_id_twice_is_refused(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    a = cluster.agent("node-a", endpoint=endpoint, nnodes=2)
    a.says("1 of 2 nodes")
    twin = cluster.agent("node-a", endpoint=endpoint, nnodes=2)
    assert twin.wait() == 78
    assert re.search("node-a.*already", twin.err()), twin.err()
    b = cluster.agent("node-b", endpoint=endpoint, nnodes=2)
    cluster.started(1, 2)
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_a_node_with_another_setting_is_refused_at_once_and_the_first_one_waits_on(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    a = cluster.agent("node-a", "--max-restarts", 3, endpoint=endpoint, nnodes=2)
    a.says("1 of 2 nodes")
    odd = cluster.agent("node-x", "--max-restarts", 5, endpoint=endpoint, nnodes=2)
    assert odd.wait() == 78
    assert "node-x has max-restarts 5, the run 3: start all nodes" in odd.err(), odd.err()
    a.says("node-x was refused: it has max-restarts 5, the run 3")
    b = cluster.agent("node-b", "--max-restarts", 3, endpoint=endpoint, nnodes=2)
    cluster.started(1, 2)
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_the_node_that_holds_the_daemon_is_right_about_the_settings(cluster):
    port = free_port()
    a = cluster.agent("node-a", "--max-restarts", 3, endpoint=f"127.0.0.1:{port}", nnodes=2)
    a.says("1 of 2 nodes")
    odd = cluster.agent("node-x", "--max-restarts", 5, endpoint=f"127.0.0.1:{port}", nnodes=2)
    assert odd.wait() == 78
    assert "node-x has max-restarts 5, the run 3: start all nodes" in odd.err(), odd.err()
    a.says("node-x was refused: it has max-restarts 5, the run 3")
    b = cluster.agent("node-b", "--max-restarts", 3, endpoint=f"127.0.0.1:{port}", nnodes=2)
    cluster.started(1, 2)
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_a_join_restarts_the_run_where_that_was_asked_for(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2",
                  conf="last_call_timeout=0.2")
    a = cluster.agent("node-a", "--on-join", "restart", **common)
    cluster.started(1, 1)
    b = cluster.agent("node-b", "--on-join", "restart", **common)
    # This is the second round, unless an agent was so late that the run began without it.
    both = wait_for("a round of two", lambda: next(
        (int(each.round) for each in cluster.events("start") if each.world_size == "2"), None))
    after = cluster.started(both, 2)
    assert [w.node for w in after] == ["node-a", "node-b"]
    assert {w.restarts for w in after} == {"0"}
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_the_same_command_again_opens_the_next_instance(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    instances = set()
    for _ in range(2):
        agent = cluster.agent("node-a", endpoint=endpoint)

        def fresh():
            found = [e.instance for e in cluster.events("start") if e.instance not in instances]
            return found

        instances.add(wait_for("a worker of a new instance", fresh)[0])
        cluster.finish(1)
        assert agent.wait() == 0
    assert len(instances) == 2
