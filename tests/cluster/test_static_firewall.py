"""The static form behind firewalls: the first node's MASTER_PORT is the only port to which anything
connects. The other nodes can connect to it, but cannot be connected to."""

import subprocess
import sys
import textwrap

import pytest

from tests.support.cluster import LOST_SOON, wait_for
from tests.support.firewall import open_for, turned_away
from tests.support.needs import needs

PORT = 29500


@pytest.fixture
def walled(make_hosts):
    hosts = make_hosts(3)
    open_for(hosts[0], PORT)
    for host in hosts[1:]:
        open_for(host)
    return hosts


def node(cluster, hosts, rank, *arguments, **options):
    return cluster.agent(f"node-{rank}", f"--node-rank={rank}", f"--master-port={PORT}",
                         f"--master-addr={hosts[0].address}", "--max-restarts=2", *arguments,
                         host=hosts[rank], nnodes=len(hosts), conf=LOST_SOON, **options)


def nobody_was_turned_away(hosts):
    assert [turned_away(host) for host in hosts] == [0, 0, 0]


def later(cluster, restarts):
    """The world is complete after a restart."""
    def look():
        found = [e for e in cluster.events("start") if e.restarts == restarts]
        newest = max((int(e.round) for e in found), default=0)
        found = {e.rank: e.node for e in found if int(e.round) == newest}
        return len(found) == 3 and found

    return wait_for(f"restart {restarts}", look)


def test_only_the_master_port_of_the_first_node_is_dialled(cluster, walled):
    agents = [node(cluster, walled, rank) for rank in range(3)]
    cluster.started(1, 3)
    cluster.order(2, "exit 3")
    assert later(cluster, "1") == {str(rank): f"node-{rank}" for rank in range(3)}
    # A node is lost, and comes back: its guardian reports, and then a new agent connects.
    agents[1].kill()
    agents[1].wait()
    agents[1] = node(cluster, walled, 1)
    wait_for("its round", lambda: [e for e in cluster.events("start")
                                   if e.node == "node-1" and int(e.round) > 2])
    cluster.finish(3)
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    nobody_was_turned_away(walled)
    cluster.nothing_left()


DIAL = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"


def test_the_firewall_of_this_test_is_one(walled):
    with subprocess.Popen([*walled[1].prefix, "nc", "-l", "-p", "7000"]) as listener:
        wait_for("a listener", lambda: any(":7000 " in line for line in walled[1].sockets()))
        done = subprocess.run([*walled[0].prefix, sys.executable, "-c", DIAL, walled[1].address,
                               "7000"], capture_output=True, text=True, check=False)
        listener.kill()
    assert "timed out" in done.stderr, done
    assert turned_away(walled[1]) > 0


STORE = textwrap.dedent("""
    import os, sys
    from datetime import timedelta
    from torch.distributed import TCPStore
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world,
                     is_master=False, timeout=timedelta(seconds=120))
    store.set(f"from {rank}", str(rank))
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and rank == 1:
        sys.exit(7)
    print(sum(int(store.get(f"from {each}")) for each in range(world)), flush=True)
    store.add("read", 1)
    while store.add("read", 0) < world:
        pass
""")


def test_the_workers_store_is_at_that_port_too(cluster, walled, tmp_path):
    needs("torch", "PyTorch is not installed here")
    script = tmp_path / "meet.py"
    script.write_text(STORE)
    agents = [node(cluster, walled, rank, command=[script],
                   environment={"PYTHON_EXEC": sys.executable}) for rank in range(3)]
    assert [agent.wait() for agent in agents] == [0, 0, 0], agents[0].err()
    said = [agent.out().splitlines()[-1] for agent in agents]
    assert said == [f"[node-{rank}:{rank}] 3" for rank in range(3)]
    assert "restart 1 of 2" in agents[0].err()
    nobody_was_turned_away(walled)
