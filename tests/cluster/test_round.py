"""The life of a round: ranks, restarts, the budget, success, and what is printed about a
failure."""

import re

import pytest

pytestmark = pytest.mark.main_path


def test_one_node_needs_no_endpoint(cluster):
    agent = cluster.agent("", "--nnodes", "1", workers=2)
    first, second = cluster.started(1, 2)
    assert (first.world_size, first.nodes, first.group_rank) == ("2", "1", "0")
    assert (first.local_rank, second.local_rank) == ("0", "1")
    assert first.restarts == "0"
    cluster.finish(2)
    assert agent.wait() == 0
    cluster.nothing_left()


def test_two_nodes_with_different_worker_counts(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    a = cluster.agent("node-a", endpoint=endpoint, nnodes=2, workers=2)
    a.says("1 of 2 nodes")
    b = cluster.agent("node-b", endpoint=endpoint, nnodes=2, workers=3)
    workers = cluster.started(1, 5)
    assert [w.node for w in workers] == ["node-a"] * 2 + ["node-b"] * 3
    assert [w.local_rank for w in workers] == ["0", "1", "0", "1", "2"]
    assert {w.world_size for w in workers} == {"5"}
    assert len({w.master for w in workers}) == 1
    cluster.finish(5)
    assert (a.wait(), b.wait()) == (0, 0)
    cluster.nothing_left(but=[daemon])


def test_nodes_with_different_roles(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    a = cluster.agent("node-a", "--role", "trainer", endpoint=endpoint, nnodes=3, workers=2)
    a.says("2 of 3 nodes")
    b = cluster.agent("node-b", "--role", "reader", endpoint=endpoint, nnodes=3, workers=1)
    b.says("1 of 3 nodes")
    c = cluster.agent("node-c", "--role", "trainer", endpoint=endpoint, nnodes=3, workers=2)
    workers = cluster.started(1, 5)
    assert {w.world_size for w in workers} == {"5"}
    told = {w.node + w.local_rank: (w.role, w.role_rank, w.role_world_size) for w in workers}
    assert told == {
        "node-a0": ("trainer", "0", "4"), "node-a1": ("trainer", "1", "4"),
        "node-b0": ("reader", "0", "1"),
        "node-c0": ("trainer", "2", "4"), "node-c1": ("trainer", "3", "4"),
    }  # fmt: skip
    # A daemon that knows of none of this finds the round, and what it tells is no other.
    daemon.kill(9)
    daemon.wait()
    daemon = cluster.daemon(daemon.port)
    cluster.order(4, "exit 3")
    assert [agent.wait() for agent in (a, b, c)] == [3, 3, 3]
    cluster.nothing_left(but=[daemon])


def test_a_failed_worker_restarts_all_workers_of_all_nodes(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = cluster.nodes("node-a", "node-b", arguments=["--max-restarts", 2],
                           endpoint=endpoint, nnodes=2, workers=2)
    before = cluster.started(1, 4)
    cluster.order(3, "exit 3")
    after = cluster.started(2, 4)
    assert [w.node for w in after] == [w.node for w in before], "survivors keep their ranks"
    assert {w.restarts for w in after} == {"1"}
    assert {w.pid for w in after}.isdisjoint({w.pid for w in before})
    assert after[0].master != before[0].master, "a new round has a new store"
    for agent in agents:
        agent.says(r"rank 3 .*exited with code 3")
    cluster.finish(4)
    assert [agent.wait() for agent in agents] == [0, 0]
    cluster.nothing_left(but=[daemon])


def test_the_budget_is_the_runs_and_the_exit_code_is_the_causes(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = cluster.nodes("node-a", "node-b", arguments=["--max-restarts", 1],
                           endpoint=endpoint, nnodes=2)
    cluster.started(1, 2)
    cluster.order(0, "exit 3")
    cluster.started(2, 2)
    cluster.order(1, "echo the disk is full >&2; exit 7")
    assert [agent.wait() for agent in agents] == [7, 7]
    for agent in agents:
        text = agent.err()
        assert re.search(r"node-b.*rank 1.*exited with code 7", text), text
        assert "the disk is full" in text, text
    cluster.nothing_left(but=[daemon])


def test_a_killed_worker_is_named_by_its_signal(cluster):
    agent = cluster.agent("", workers=2)
    cluster.started(1, 2)
    cluster.order(1, "kill -9 $$")
    assert agent.wait() == 137
    assert re.search(r"rank 1.*SIGKILL", agent.err()), agent.err()
    cluster.nothing_left()


def test_the_root_cause_is_not_the_victim(cluster):
    """Rank 0 dies of a signal; rank 1, which notices, exits with 1 a moment later."""
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    agents = cluster.nodes("node-a", "node-b", endpoint=endpoint, nnodes=2,
                           environment={"DDPRUN_TEST_TERM": "trap"})
    cluster.started(1, 2)
    cluster.order(0, "kill -SEGV $$")
    assert [agent.wait() for agent in agents] == [139, 139]
    for agent in agents:
        assert re.search(r"node-a.*rank 0.*SIGSEGV", agent.err()), agent.err()


def test_workers_that_ignore_sigterm_are_killed_after_the_grace(cluster):
    agent = cluster.agent("", "--max-restarts", 1, workers=2, conf="stop_grace=0.3",
                          environment={"DDPRUN_TEST_TERM": "ignore"})
    before = cluster.started(1, 2)
    cluster.order(0, "exit 3")
    after = cluster.started(2, 2)
    assert before[1].pid != after[1].pid
    cluster.finish(2)
    assert agent.wait() == 0
    cluster.nothing_left()


def test_children_of_workers_die_with_the_round(cluster):
    agent = cluster.agent("", workers=1)
    cluster.started(1, 1)
    cluster.order(0, "sleep 1000 & sleep 1000 & exit 5")
    assert agent.wait() == 5
    cluster.nothing_left()
