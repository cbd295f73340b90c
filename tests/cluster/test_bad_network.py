"""A network with a long delay and losses: every frame takes 50 ms, one in fifty is lost."""

import re

from tests.support.cluster import LOST_SOON, wait_for


def job(cluster, make_slow_hosts, nnodes, conf=LOST_SOON):
    hosts = make_slow_hosts(4, delay=0.05, loss=0.02)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    agents = [cluster.agent(f"node-{index}", "--max-restarts=1", host=hosts[index], nnodes=nnodes,
                            endpoint=f"{hosts[0].address}:{daemon.port}", conf=conf)
              for index in (1, 2, 3)]
    return hosts, daemon, agents


def test_delay_and_loss_cost_time_and_no_node(cluster, make_slow_hosts):
    _, daemon, agents = job(cluster, make_slow_hosts, "3", "node_timeout=30")
    cluster.started(1, 3)
    cluster.order(1, "exit 3")
    cluster.started(2, 3)
    cluster.finish(3)
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    assert not [agent for agent in agents if re.search(r"\blost\b", agent.err())]
    cluster.nothing_left(but=[daemon])


def test_a_cut_cable_of_such_a_network_is_a_lost_node(cluster, make_slow_hosts):
    hosts, daemon, agents = job(cluster, make_slow_hosts, "2:3")
    cut = next(w for w in cluster.started(1, 3) if w.node == "node-3")
    hosts[3].cut()
    wait_for("the isolated node to kill its worker",
             lambda: int(cut.pid) not in cluster.marked())
    assert {w.node for w in cluster.started(2, 2)} == {"node-1", "node-2"}
    hosts[3].heal()
    agents[2].says("again")
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    cluster.nothing_left(but=[daemon])
