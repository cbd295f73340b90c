"""The round's port: where it listens, how many unknown clients it accepts, and what they cost the
job."""

import ipaddress
import os
import resource
import socket
import subprocess
import sys
import textwrap

import pytest

from tests.cluster.test_store_memory import PING, SET, VALIDATE, request
from tests.cluster.test_strangers import DESCRIPTORS, many_descriptors, with_limit  # noqa: F401
from tests.support.cluster import BIN, LIMIT, Program, wait_for
from tests.support.needs import needs
from tests.support.ports import free_port

EVERY = {"0.0.0.0", "::"}
LOOPBACK = {"127.0.0.1", "::1"}


def listeners(port, prefix=()):
    """The addresses on which a process listens on this port."""
    done = subprocess.run([*prefix, "ss", "-Hltn", f"sport = :{port}"], capture_output=True,
                          text=True, check=True)
    found = set()
    for line in done.stdout.splitlines():
        address = line.split()[3].rsplit(":", 1)[0].strip("[]").split("%")[0]
        found.add("::" if address == "*" else str(ipaddress.ip_address(address)))
    return found


def split(worker):
    address, port = worker.master.rsplit(":", 1)
    return address.strip("[]"), int(port)


def reaches(host, address, port):
    """Whether a connection from that host is accepted."""
    done = subprocess.run([*host.prefix, sys.executable, "-c", textwrap.dedent(f"""
        import socket
        try:
            socket.create_connection(({address!r}, {port}), 10).close()
        except ConnectionRefusedError:
            raise SystemExit(3)
    """)], check=False)
    assert done.returncode in (0, 3)
    return done.returncode == 0


@pytest.mark.parametrize("where", ["standalone", "daemon", "fixed", "own address", "name"])
def test_the_port_of_one_node_is_open_to_this_host_alone(cluster, make_hosts, where):
    host, other = make_hosts(2)
    address = host.address
    arguments = {
        "standalone": ["--standalone"],
        "fixed": ["--standalone", "--master-port", 29511],
        "own address": ["--local-addr", address],
        "name": ["--local-addr", "localhost"],
    }.get(where, [])
    endpoint = None
    if "--standalone" not in arguments:
        endpoint = f"{address}:{cluster.daemon(29400, host=host, bind='0.0.0.0').port}"
    agent = cluster.agent("a", *arguments, "--max-restarts", 1, host=host, endpoint=endpoint)
    for round_number in (1, 2):  # the second may have inherited the port
        told, port = split(cluster.started(round_number, 1)[0])
        if where == "own address":
            assert told == address and listeners(port, host.prefix) == {address, *LOOPBACK}
        else:
            assert told == ("localhost" if where == "name" else "127.0.0.1")
            assert listeners(port, host.prefix) == LOOPBACK
            assert not reaches(other, address, port)
        # A script on this node may use any address that it has been given.
        assert reaches(host, told, port)
        cluster.order(0, f"exit {2 - round_number}")
    assert agent.wait() == 0


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
def test_the_port_of_two_nodes_is_open_to_their_network(cluster, make_hosts, ipv6):
    hosts = make_hosts(2, ipv6)
    leader = hosts[0]
    # Another network of the leader, which the round does not use.
    subprocess.run([*leader.prefix, "ip", "address", "add", "192.0.2.7/32", "dev", "lo"],
                   check=True)
    address = f"[{leader.address}]" if ipv6 else leader.address
    a, b = cluster.nodes("a", endpoint=f"{address}:29400", nnodes=2, host=leader) + [
        cluster.agent("b", endpoint=f"{address}:29400", nnodes=2, host=hosts[1])]
    told, port = split(cluster.started(1, 2)[0])
    assert told == leader.address
    assert listeners(port, leader.prefix) == {leader.address, *LOOPBACK}
    assert reaches(hosts[1], told, port) and not reaches(leader, "192.0.2.7", port)
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_a_fixed_port_opens_to_the_network_when_a_node_comes_and_closes_when_it_goes(
        cluster, make_hosts):
    hosts = make_hosts(2)
    options = {"endpoint": f"{hosts[0].address}:29400", "nnodes": "1:2",
               "conf": "last_call_timeout=0.2,settle=0.1"}
    more = ["--master-port", 29512, "--on-join", "restart"]
    a = cluster.agent("a", *more, host=hosts[0], **options)
    assert split(cluster.started(1, 1)[0]) == ("127.0.0.1", 29512)
    assert listeners(29512, hosts[0].prefix) == LOOPBACK
    b = cluster.agent("b", *more, host=hosts[1], **options)
    assert split(cluster.started(2, 2)[0]) == (hosts[0].address, 29512)
    assert listeners(29512, hosts[0].prefix) == {hosts[0].address, *LOOPBACK}
    b.kill(15)
    assert split(cluster.started(3, 1)[0]) == ("127.0.0.1", 29512)
    assert listeners(29512, hosts[0].prefix) == LOOPBACK
    b.wait()
    cluster.finish(1)
    assert a.wait() == 0


def test_an_address_that_is_none_of_ours_is_waited_for_on_every_interface(cluster, make_hosts):
    """As in a container, connections to the host's address are forwarded to another address."""
    host, other = make_hosts(2)
    agent = cluster.agent("a", "--standalone", "--local-addr", "198.51.100.1", host=host)
    told, port = split(cluster.started(1, 1)[0])
    assert told == "198.51.100.1"
    assert listeners(port, host.prefix) & EVERY
    assert reaches(other, host.address, port)
    cluster.finish(1)
    assert agent.wait() == 0


SCRIPT = textwrap.dedent("""
    import sys, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    dist.barrier()
    dist.destroy_process_group()
    print(f"sum {value.item():.0f}", flush=True)
""")


@pytest.mark.parametrize("nodes, ipv6", [
    (2, False), (1, True), *(pytest.param(*each, marks=pytest.mark.slow)
                             for each in ((1, False), (2, True)))])
def test_pytorch_finds_the_port(cluster, make_hosts, tmp_path, nodes, ipv6):
    needs("torch", "PyTorch is not installed here")
    hosts = make_hosts(2, ipv6)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    address = f"[{hosts[0].address}]" if ipv6 else hosts[0].address
    daemon = cluster.daemon(29400, host=hosts[1], bind="::" if ipv6 else "0.0.0.0")
    address = f"[{hosts[1].address}]" if ipv6 else hosts[1].address
    agents = [cluster.agent(f"n{index}", endpoint=f"{address}:{daemon.port}", nnodes=nodes,
                            workers=2, host=hosts[index], command=[script],
                            environment={"GLOO_SOCKET_IFNAME": "eth0",
                                         "PYTHON": sys.executable,
                                         "PATH": os.path.dirname(sys.executable) + os.pathsep
                                         + os.environ["PATH"]})
              for index in range(nodes)]
    for agent in agents:
        assert agent.wait(240) == 0, agent.err()
        assert agent.out().count(f"sum {2 * nodes}") == 2
        assert "Connection refused" not in agent.err()


def connections(port):
    """The connections that the port's owner holds."""
    done = subprocess.run(["ss", "-Htn", "state", "established", f"sport = :{port}"],
                          capture_output=True, text=True, check=True)
    return len(done.stdout.splitlines())


class Peer:
    def __init__(self, port, words=b""):
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT)
        self.socket.settimeout(LIMIT)
        self.say(words)

    def say(self, words):
        """False if it was turned away."""
        try:
            self.socket.sendall(words)
            return True
        except OSError:
            return False

    def hears(self, answer):
        heard = b""
        try:
            while len(heard) < len(answer):
                more = self.socket.recv(len(answer) - len(heard))
                if not more:
                    return False
                heard += more
        except ConnectionError:
            return False
        return heard == answer


WORDS = {
    "silent": lambda number: b"",
    "validated": lambda number: VALIDATE,
    "pinging": lambda number: VALIDATE + PING,
    "mixed": lambda number: VALIDATE if number % 2 else b"",
    "agents": lambda number: b"{",
    "web": lambda number: b"GET /",
    "clients": lambda number: VALIDATE + request(SET, b"%d" % number, b"v") + PING,
}


def strangers(port, kind):
    made = []
    for number in range(300):
        made.append(Peer(port, WORDS[kind](number)))
        if kind == "clients":
            made[-1].hears(PING[1:])  # it is connected now, or was turned away
    return made


# A worker that prints where its store is, and does what it is told; the second time it succeeds. It
# uses the store as PyTorch does.
WORKER = textwrap.dedent(r"""
    import os, socket, sys
    folder, attempt = sys.argv[1], os.environ["TORCHELASTIC_RESTART_COUNT"]
    port = int(os.environ["MASTER_PORT"])
    while True:
        try:
            store = socket.create_connection((os.environ["MASTER_ADDR"], port), 60)
            store.sendall(b"\0\xce\xf7\x85\x3c" + b"\x0d\x2a\0\0\0" + b"\4"
                          + b"\1\0\0\0\0\0\0\0k" + b"\1\0\0\0\0\0\0\0")
            if store.recv(12, socket.MSG_WAITALL) != b"\x2a\0\0\0" + b"\1\0\0\0\0\0\0\0":
                raise ConnectionError("turned away")
            break
        except ConnectionError:  # PyTorch's client tries again, too
            pass
    def told(name):
        with open(os.path.join(folder, name)) as pipe:
            return pipe.read()
    with open(os.path.join(folder, "master.new"), "w") as file:
        file.write(f"{port}")
    os.rename(file.name, os.path.join(folder, "master" + attempt))
    told("end" + attempt)
    store.sendall(b"\4" + b"\1\0\0\0\0\0\0\0k" + b"\1\0\0\0\0\0\0\0")
    assert store.recv(8, socket.MSG_WAITALL) == b"\2\0\0\0\0\0\0\0", "the store let go of us"
    print("attempt", attempt, flush=True)
    sys.exit(3 if attempt == "0" else 0)
""")


class Job:
    """One worker under a limit of descriptors, with a budget of two restarts."""

    def __init__(self, cluster, *arguments):
        self.folder = cluster.folder
        for attempt in range(3):
            os.mkfifo(self.folder / f"end{attempt}")
        script = self.folder / "worker.py"
        script.write_text(WORKER)
        self.agent = Program(
            cluster, "agent",
            [BIN / "ddprun", *arguments, "--max-restarts", 2, "--no-python", sys.executable, script,
             self.folder], preexec_fn=with_limit(resource.RLIMIT_NOFILE, DESCRIPTORS))

    def port(self, attempt):
        file = self.folder / f"master{attempt}"
        return int(wait_for(f"attempt {attempt}", lambda: file.exists() and file.read_text()))

    def end(self, attempt):
        with open(self.folder / f"end{attempt}", "w"):
            pass

    def ends_well_with_one_restart(self):
        self.end(0)
        self.port(1)
        self.end(1)
        assert self.agent.wait() == 0, self.agent.err()
        assert self.agent.out() == "attempt 0\nattempt 1\n"
        for word in ("Too many open files", "cannot start", "restart 2"):
            assert word not in self.agent.err()


@pytest.mark.parametrize("kind", WORDS)
def test_strangers_at_the_rounds_port_cost_no_restart(cluster, kind):
    job = Job(cluster, "--standalone")
    peers = strangers(job.port(0), kind)
    job.ends_well_with_one_restart()
    del peers


@pytest.mark.parametrize("kind", WORDS)
def test_strangers_at_the_embedded_daemons_port_cost_no_restart(cluster, kind):
    port = free_port()
    job = Job(cluster, "--rdzv-endpoint", f"127.0.0.1:{port}", "--nnodes", 1)
    job.port(0)
    peers = strangers(port, kind)
    job.ends_well_with_one_restart()
    del peers


def test_strangers_at_both_ports_cost_no_restart(cluster):
    port = free_port()
    job = Job(cluster, "--rdzv-endpoint", f"127.0.0.1:{port}", "--nnodes", 1)
    peers = strangers(job.port(0), "clients") + strangers(port, "clients")
    job.ends_well_with_one_restart()
    del peers


def test_of_those_that_say_nothing_the_oldest_goes_first(cluster):
    """With one worker and one node there are 64 connections for the worker, and one for the
    member."""
    job = Job(cluster, "--standalone")
    port = job.port(0)
    peers = strangers(port, "mixed")
    wait_for("the strangers to be let go of", lambda: connections(port) <= 1 + 65)
    # A client that has sent something stays, whichever others come.
    client = Peer(port, VALIDATE + request(SET, b"mine", b"v") + PING)
    assert client.hears(PING[1:])
    more = strangers(port, "validated")
    wait_for("the strangers to be let go of", lambda: connections(port) <= 2 + 65)
    client.say(PING)
    assert client.hears(PING[1:])
    job.ends_well_with_one_restart()
    del peers, more


def test_clients_beyond_what_descriptors_leave_are_turned_away_in_one_line(cluster):
    job = Job(cluster, "--standalone")
    port = job.port(0)
    peers = strangers(port, "clients")
    job.agent.says(r"the round's port turns connections away: \d+ are open.*ulimit -Hn")
    # The first ones came while there was room, and stay.
    for peer in peers[:80]:
        peer.say(PING)
        assert peer.hears(PING[1:])
    assert not peers[-1].say(PING) or not peers[-1].hears(PING[1:])
    job.ends_well_with_one_restart()
