"""Three hosts without names: addresses, a link that is cut, a link that is healed, a daemon's host
that is lost."""

import re

import pytest

from tests.support.cluster import LOST_SOON, NONE_IS_LOST, wait_for


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
def test_three_hosts_without_names(cluster, make_hosts, ipv6):
    hosts = make_hosts(3, ipv6)
    daemon = cluster.daemon(29400, host=hosts[0], bind="::" if ipv6 else "0.0.0.0")
    address = f"[{hosts[0].address}]" if ipv6 else hosts[0].address
    agents = []
    for index, host in enumerate(hosts):
        agents.append(cluster.agent(f"node-{index}", endpoint=f"{address}:{daemon.port}", nnodes=3,
                                    host=host))
        if index == 0:
            agents[0].says("waiting for 2 of 3 nodes")  # hence group rank 0
    workers = cluster.started(1, 3)
    # The leader runs on the daemon's host, but the others must get an address that they can reach.
    assert all(hosts[0].address in worker.master for worker in workers), workers
    cluster.finish(3)
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    cluster.nothing_left(but=[daemon])


def test_daemon_inside_the_first_agent_publishes_an_address_the_others_reach(cluster, make_hosts):
    hosts = make_hosts(2)
    endpoint = f"{hosts[0].address}:29400"
    a = cluster.agent("node-0", endpoint=endpoint, nnodes=2, host=hosts[0])
    a.says("1 of 2 nodes")
    b = cluster.agent("node-1", endpoint=endpoint, nnodes=2, host=hosts[1])
    workers = cluster.started(1, 2)
    assert all(worker.master.startswith(hosts[0].address + ":") for worker in workers)
    for agent in (a, b):
        agent.says(re.escape(f"ranks 0 on node-0 ({hosts[0].address}), 1 on node-1 ("))
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)
    cluster.nothing_left()
    assert not hosts[0].sockets() and not hosts[1].sockets()


def test_a_cut_link_is_a_lost_node_and_its_workers_end(cluster, make_hosts):
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    endpoint = f"{hosts[0].address}:{daemon.port}"
    agents = [
        cluster.agent(f"node-{index}", endpoint=endpoint, nnodes="1:2", host=hosts[index],
                      conf=LOST_SOON) for index in (1, 2)
    ]
    before = cluster.started(1, 2)
    cut = next(w for w in before if w.node == "node-2")
    hosts[2].cut()
    wait_for("the isolated node to kill its worker",
             lambda: int(cut.pid) not in cluster.marked())
    assert not [e for e in cluster.events("start") if e.round == "2"], \
        "the next round starts only when the isolated node's workers are gone"
    after = cluster.started(2, 1)
    assert after[0].node == "node-1"
    agents[0].says("node-2")
    hosts[2].heal()
    agents[1].says("again")
    cluster.order(0, "exit 0")
    assert agents[0].wait() == 0
    assert agents[1].wait() == 0
    cluster.nothing_left(but=[daemon])


def test_what_replaces_a_node_right_after_its_host_died_waits(cluster, make_hosts):
    """Its connection has not even been closed, so for the daemon its --node-id is still in use."""
    hosts = make_hosts(4)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")

    def on_host(name, host):
        return cluster.agent(name, endpoint=f"{hosts[0].address}:{daemon.port}", nnodes=2,
                             host=host, conf=LOST_SOON)

    first, lost = on_host("node-1", hosts[1]), on_host("node-2", hosts[2])
    cluster.started(1, 2)
    hosts[2].cut()
    again = on_host("node-2", hosts[3])
    lost.kill()
    lost.wait()
    wait_for("both to run again", lambda: {e.node for e in cluster.events("start")
                                           if e.round != "1"} == {"node-1", "node-2"})
    cluster.finish(2)
    assert (first.wait(), again.wait()) == (0, 0)
    cluster.nothing_left(but=[daemon])


def test_a_second_agent_of_a_node_id_that_is_in_use_is_refused(cluster, make_hosts):
    """The second agent is on another host, so the first one might be dead, and was asked first."""
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    common = dict(endpoint=f"{hosts[0].address}:{daemon.port}", nnodes=2, conf=NONE_IS_LOST)
    first = cluster.agent("node-1", host=hosts[1], **common)
    first.says("waiting for 1 of 2 nodes")
    second = cluster.agent("node-1", host=hosts[2], **common)
    assert second.wait() == 78
    said = rf"node id node-1 is already used by a node at {hosts[1].address}: give each node its"
    assert re.search(said, second.err()), second.err()
    other = cluster.agent("node-2", host=hosts[2], **common)
    cluster.started(1, 2)
    cluster.finish(2)
    assert (first.wait(), other.wait()) == (0, 0)


def test_a_link_that_heals_in_time_costs_nothing(cluster, make_hosts):
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    endpoint = f"{hosts[0].address}:{daemon.port}"
    agents = [
        cluster.agent(f"node-{index}", endpoint=endpoint, nnodes=2, host=hosts[index],
                      conf=NONE_IS_LOST) for index in (1, 2)
    ]
    cluster.started(1, 2)
    hosts[2].cut()
    hosts[2].heal()
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    assert len(cluster.events("start")) == 2


def test_the_daemons_host_is_cut_off_and_the_nodes_run_on(cluster, make_hosts):
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    endpoint = f"{hosts[0].address}:{daemon.port}"
    agents = [
        cluster.agent(f"node-{index}", endpoint=endpoint, nnodes=2, host=hosts[index])
        for index in (1, 2)
    ]
    cluster.started(1, 2)
    hosts[0].cut()
    for agent in agents:
        # After 4 s of silence the peer counts as gone, after 10 s the node is lost.
        agent.says(r"no rendezvous daemon at .* for (\d{2,}|[7-9][\d.]*) s")
    assert len(cluster.events("start")) == 2
    hosts[0].heal()
    for agent in agents:
        agent.says("again")
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    assert len(cluster.events("start")) == 2
    cluster.nothing_left(but=[daemon])
