"""Command lines that people have for torchrun, in which two parts name the same port or place."""

from tests.support.ports import free_port


def test_one_port_for_the_endpoint_and_the_master(cluster):
    port = free_port()
    agents = [cluster.agent(f"node-{rank}", "--rdzv-backend=c10d", "--master-addr=127.0.0.1",
                            f"--master-port={port}", f"--node-rank={rank}", nnodes=2,
                            endpoint=f"127.0.0.1:{port}") for rank in (0, 1)]
    workers = cluster.started(1, 2)
    assert f":{port}" not in workers[0].master
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    for agent in agents:
        assert "restart" not in agent.err()
        assert f"--master-port={port} is ignored: the rendezvous daemon" in agent.err()
    cluster.nothing_left()
