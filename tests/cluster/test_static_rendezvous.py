"""torchrun's static form: --nnodes=2 --node-rank=R --master-addr=A --master-port=P, without a
daemon that a person starts."""

import contextlib
import signal
import socket
import sys
import textwrap

import pytest

from tests.support.busy_ports import at_a_busy_port, busy_port
from tests.support.cluster import LIMIT, LOST_SOON, Program, get, wait_for
from tests.support.needs import needs
from tests.support.ports import free_port, listening

pytestmark = pytest.mark.main_path


def node(cluster, rank, port, *arguments, address="127.0.0.1", nodes=2, **options):
    placed = [f"--node-rank={rank}"] if rank is not None else []
    return cluster.agent(f"node-{'x' if rank is None else rank}", *placed,
                         f"--master-addr={address}", f"--master-port={port}", *arguments,
                         nnodes=nodes, **options)


def own_address():
    """The address that this host would send from, if it has one besides loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with contextlib.suppress(OSError):
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
    return pytest.skip("this host has no address beside loopback")


LOOPBACK = {"127.0.0.1", "::1"}


@pytest.mark.parametrize("typed, others, expected", [
    ("127.0.0.1", "127.0.0.1", LOOPBACK),
    ("own", "own", {"own", *LOOPBACK}),
    ("own", "localhost", {"own", *LOOPBACK}),
    ("localhost", "own", {"::"}),  # a name: others may connect to any address
])
def test_it_listens_where_all_are_told_and_on_loopback(cluster, typed, others, expected):
    """The daemon, the tethers and the workers' store are all at one port."""
    port = free_port()
    own = own_address() if "own" in (typed, others) else ""
    first, second = (own if each == "own" else each for each in (typed, others))
    leader = node(cluster, 0, port, "--log-level=debug", address=first)
    other = node(cluster, 1, port, address=second)
    cluster.started(1, 2)
    found = {address for address, number in listening(leader.pid) if number == port}
    assert found == {own if each == "own" else each for each in expected}
    is_said = "the daemon listens on every interface: localhost is a name" in leader.err()
    assert is_said == (typed == "localhost")
    cluster.finish(2)
    assert [leader.wait(), other.wait()] == [0, 0]


def test_an_address_that_is_not_here_is_listened_for_everywhere(cluster):
    """It is the address of a service that forwards to an address of this host."""
    port = free_port()
    leader = node(cluster, 0, port, "--log-level=debug", address="203.0.113.1")
    leader.says("every interface: 203.0.113.1 is not an address of this host")
    wait_for("the port", lambda: ("::", port) in listening(leader.pid))
    leader.kill(signal.SIGTERM)
    leader.wait()


def ranks_of(workers):
    """The node of each rank."""
    return [worker.node for worker in workers]


def test_ranks_are_those_of_the_nodes_and_the_master_is_as_typed(cluster):
    port = free_port()
    agents = [node(cluster, rank, port, address="localhost", nodes=3, workers=workers)
              for rank, workers in ((2, 1), (1, 2))]
    agents.append(node(cluster, 0, port, address="localhost", nodes=3, workers=1))
    workers = cluster.started(1, 4)
    assert ranks_of(workers) == ["node-0", "node-1", "node-1", "node-2"]
    assert [worker.group_rank for worker in workers] == ["0", "1", "1", "2"]
    assert {worker.master for worker in workers} == {f"localhost:{port}"}
    assert get(port, "/healthz") == (200, "ok\n")  # the daemon has the same port
    cluster.finish(4)
    assert [agent.wait() for agent in agents] == [0, 0, 0]
    cluster.nothing_left()


@pytest.mark.parametrize("first", ["localhost", "0.0.0.0"])
def test_each_nodes_workers_are_told_what_was_typed_there(cluster, make_hosts, first):
    """Kubeflow's operators rely on that; and a firewall has to let only one port through."""
    hosts = make_hosts(2)
    address = hosts[0].address
    agents = [node(cluster, 0, 29500, address=first, host=hosts[0]),
              node(cluster, 1, 29500, address=address, host=hosts[1])]
    workers = cluster.started(1, 2)
    assert ranks_of(workers) == ["node-0", "node-1"]
    assert [worker.master for worker in workers] == [f"{first}:29500", f"{address}:29500"]
    assert [{port for _, port in listening(agent.pid)} for agent in agents] == [{29500}, set()]
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    cluster.nothing_left()


def test_the_form_of_kubeflow_is_read_from_the_environment(cluster):
    port = free_port()
    agents = []
    for rank in (0, 1):
        variables = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": str(rank),
                     "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(port)}
        agents.append(Program(cluster, f"pod-{rank}",
                              [*cluster.agent_line("")[:1], "--no-python", "sh", "-c",
                               "echo $RANK at $MASTER_ADDR:$MASTER_PORT"], environment=variables))
    assert [agent.wait() for agent in agents] == [0, 0]
    said = [agent.out().partition("] ")[2] for agent in agents]
    assert said == [f"{rank} at 127.0.0.1:{port}\n" for rank in (0, 1)]


TRAINING = textwrap.dedent("""
    import os, torch, torch.distributed as dist
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    dist.init_process_group("gloo")
    value = torch.ones(1) * dist.get_rank()
    dist.all_reduce(value)
    if first and dist.get_rank() == 1:
        os._exit(7)
    dist.barrier()
    print(f"{dist.get_rank()} of {dist.get_world_size()}: {value.item():.0f}", flush=True)
    dist.destroy_process_group()
    os._exit(0)
""")


def test_a_restart_has_a_fresh_store_at_the_same_port(cluster, tmp_path):
    needs("torch", "PyTorch is not installed here")
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    port = free_port()
    agents = [node(cluster, rank, port, "--max-restarts=1", command=[script],
                   environment={"PYTHON_EXEC": sys.executable}) for rank in (0, 1)]
    assert [agent.wait(180) for agent in agents] == [0, 0], agents[0].err()
    assert "0 of 2: 1" in agents[0].out() and "1 of 2: 1" in agents[1].out()
    assert "restart 1 of 1" in agents[0].err()
    cluster.nothing_left()


def test_a_rank_that_is_missing_and_one_that_is_there_twice_are_named(cluster):
    port = free_port()
    first = node(cluster, 0, port, nodes=3)
    first.says(r"waiting for 2 of 3 nodes \(node ranks 1 and 2\), 10 min left; here: node-0")
    second = node(cluster, 1, port, nodes=3)
    second.says(r"waiting for 1 of 3 nodes \(node rank 2\)")
    again = cluster.agent("other", "--node-rank=1", "--master-addr=127.0.0.1",
                          f"--master-port={port}", nnodes=3)
    assert again.wait() == 78
    assert "node rank 1 is already used by node-1 at 127.0.0.1: give each node its own " \
           "--node-rank, from 0 to 2" in again.err(), again.err()
    third = node(cluster, 2, port, nodes=3)
    cluster.started(1, 3)
    cluster.finish(3)
    assert [each.wait() for each in (first, second, third)] == [0, 0, 0]


def test_nodes_without_a_rank_are_told_of_each_other(cluster):
    port = free_port()
    first = node(cluster, None, port)
    first.says(r"waiting for 1 of 2 nodes \(node rank 1\)")
    second = cluster.agent("second", "--master-addr=127.0.0.1", f"--master-port={port}", nnodes=2)
    assert second.wait() == 78
    assert "node rank 0 is already used by node-x" in second.err(), second.err()
    other = node(cluster, 1, port)
    cluster.finish(2)
    assert (first.wait(), other.wait()) == (0, 0)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_node_that_is_started_again_has_its_rank_again(cluster, lost):
    port = free_port()
    agents = [node(cluster, rank, port, conf=LOST_SOON) for rank in (0, 1)]
    cluster.started(1, 2)
    agents[lost].kill()
    agents[lost].wait()  # its port is free
    agents[1 - lost].says("node rank 1" if lost == 1 else "lost|connection|Connection")
    again = node(cluster, lost, port, conf=LOST_SOON)
    wait_for("both to run again", lambda: {e.node for e in cluster.events("start")
                                           if e.round != "1"} == {"node-0", "node-1"})
    later = [e for e in cluster.events("start") if e.round != "1"]
    assert all(e.node == f"node-{e.rank}" for e in later), later
    assert {e.master for e in later} == {f"127.0.0.1:{port}"}
    cluster.finish(2)
    assert (again.wait(), agents[1 - lost].wait()) == (0, 0)
    cluster.nothing_left()


def test_a_port_that_is_about_to_be_free_is_waited_for(cluster):
    first, port = at_a_busy_port(lambda port: node(cluster, 0, port))
    second = node(cluster, 1, port)
    cluster.finish(2)
    assert (first.wait(), second.wait()) == (0, 0)


def test_a_port_that_is_never_free_is_an_error(cluster):
    with busy_port() as port:
        first = node(cluster, 0, port)
        assert first.wait() == 1
    last = first.err().splitlines()[-1]
    assert f":{port}" in last and "Address already in use" in last, last
    assert last.find("error: exit code 1: cannot listen on ") > 0, last
    assert "another node with --node-rank 0 on this host" in last, last


def test_a_first_node_at_an_address_of_another_host_says_so(cluster):
    first = node(cluster, 0, free_port(), address="203.0.113.1")
    first.says("this node has --node-rank 0, but the others look for it at 203.0.113.1, which is "
               "not one of its addresses")
    first.says("waiting for 1 of 2 nodes")
    first.kill(2)
    assert first.wait() == 130


def test_a_client_that_asks_the_store_between_rounds_is_turned_away(cluster):
    port = free_port()
    first = node(cluster, 0, port)
    first.says("waiting for 1 of 2 nodes")
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"\0" + (0x3C85F7CE).to_bytes(4, "little"))
        stranger.settimeout(LIMIT)
        try:
            assert stranger.recv(1) == b""
        except ConnectionResetError:
            pass
    second = node(cluster, 1, port)
    cluster.finish(2)
    assert (first.wait(), second.wait()) == (0, 0)


def test_two_hosts(cluster, make_hosts):
    hosts = make_hosts(2)
    address = hosts[0].address
    late = node(cluster, 1, 29500, address=address, host=hosts[1])
    late.says("refused|unreachable|waiting")
    first = node(cluster, 0, 29500, address=address, host=hosts[0])
    workers = cluster.started(1, 2)
    assert ranks_of(workers) == ["node-0", "node-1"]
    assert {worker.master for worker in workers} == {f"{address}:29500"}
    cluster.finish(2)
    assert (first.wait(), late.wait()) == (0, 0)
    cluster.nothing_left()


def test_what_replaces_a_node_right_after_its_host_died_waits(cluster, make_hosts):
    """Its connection has not even been closed, so for the daemon it is still there."""
    hosts = make_hosts(3)

    def on_host(rank, host):
        return node(cluster, rank, 29500, address=hosts[0].address, host=host, conf=LOST_SOON)

    first, lost = on_host(0, hosts[0]), on_host(1, hosts[1])
    cluster.started(1, 2)
    hosts[1].cut()
    again = on_host(1, hosts[2])
    lost.kill()
    lost.wait()
    wait_for("both to run again", lambda: {e.node for e in cluster.events("start")
                                           if e.round != "1"} == {"node-0", "node-1"})
    cluster.finish(2)
    assert (first.wait(), again.wait()) == (0, 0)
    cluster.nothing_left()


def test_an_interrupt_before_the_others_come_ends_it(cluster):
    first = node(cluster, 0, free_port())
    first.says("waiting for 1 of 2 nodes")
    first.kill(2)
    assert first.wait() == 130
    cluster.nothing_left()


def test_an_interrupt_while_the_port_is_busy_ends_it(cluster):
    def interrupt(agent):
        agent.kill(2)
        agent.wait()

    first, _ = at_a_busy_port(lambda port: node(cluster, 0, port), interrupt)
    assert first.wait() == 130
    cluster.nothing_left()
