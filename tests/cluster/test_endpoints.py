"""A list of endpoints: the first daemon that answers is the run's, and stays so."""

from tests.support.cluster import free_port


def test_the_first_daemon_that_answers_is_the_runs(cluster):
    dead = free_port()
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{dead},127.0.0.1:{daemon.port}"
    agents = cluster.nodes("a", "b", endpoint=endpoint, nnodes=2)
    cluster.started(1, 2)
    assert f"waiting for the rendezvous daemon at 127.0.0.1:{dead}" in agents[0].err()
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    cluster.nothing_left(but=[daemon])


def test_who_has_been_welcomed_goes_to_no_other_daemon(cluster):
    """The other one would give the same run a round of its own."""
    first = cluster.daemon()
    other = cluster.daemon(name="other")
    endpoint = f"127.0.0.1:{first.port},127.0.0.1:{other.port}"
    conf = "node_timeout=1,reconnect_grace=0.2"
    agent = cluster.agent("a", endpoint=endpoint, conf=conf)
    cluster.started(1, 1)
    first.kill(9)
    first.wait()
    agent.says(rf"lost the rendezvous daemon at 127.0.0.1:{first.port} .*; trying again")
    again = cluster.daemon(first.port, recovery=10)
    agent.says(rf"reached the rendezvous daemon at 127.0.0.1:{first.port} again")
    assert len(cluster.events("start")) == 1
    cluster.finish(1)
    assert agent.wait() == 0
    assert "joined" not in other.err() and "a is here" not in other.err()
    cluster.nothing_left(but=[again, other])
