"""The daemon's port under a small limit of open files: whichever clients fill it, the others are
served from their protocol's share, /healthz answers, agents can connect and reconnect, and memory
stays small."""

import contextlib
import json
import re
import socket
from pathlib import Path

import pytest

from tests.cluster.test_http import get
from tests.cluster.test_store_memory import PING, SET, VALIDATE, Client, request
from tests.cluster.test_strangers import many_descriptors  # noqa: F401 (a fixture)
from tests.support.cluster import LIMIT, Program, is_built_with, resident_kb, wait_for
from tests.support.ports import free_port

HELLO = b'{"type":"hello","protocol":4,"run_id":"'
HALF_HTTP = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: "
FILLS = {
    "silent": [b""],
    "store clients that say who they are": [VALIDATE],
    "store clients that ping": [VALIDATE + PING],
    "store clients that half-say a request": [VALIDATE + PING[:2]],
    "store clients at work": [VALIDATE + request(SET, b"/k", b"v")],
    "half a VALIDATE": [VALIDATE[:2]],
    "half-sent HTTP": [HALF_HTTP],
    "HTTP that was answered and stays": [b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"],
    "half-sent hellos": [HELLO],
}
FILLS["all of them"] = [said for some in FILLS.values() for said in some]


def daemon_with(cluster, descriptors, *arguments):
    return cluster.daemon(0, *arguments,
                          prefix=["sh", "-c", f'ulimit -n {descriptors}; exec "$0" "$@"'])


def fill(port, count, words):
    """Opens so many connections, each of which sends its part of `words` and then nothing."""
    peers = []
    for number in range(count):
        peers.append(socket.create_connection(("127.0.0.1", port), LIMIT))
        with contextlib.suppress(OSError):  # the daemon has closed it already
            peers[-1].sendall(words[number % len(words)])
    return peers


@pytest.mark.parametrize("what", FILLS)
@pytest.mark.parametrize("descriptors", [64, 128, 256])
def test_peers_that_fill_the_port_lock_no_other_client_out(cluster, descriptors, what):
    daemon = daemon_with(cluster, descriptors)
    at_work = Client(daemon.port)
    assert at_work.says(request(SET, b"/mine", b"v")) and at_work.is_served()
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes="1")
    cluster.started(1, 1)
    peers = fill(daemon.port, 3 * descriptors, FILLS[what])
    assert get(daemon.port, "/healthz")[0] == 200
    assert get(daemon.port, "/api/v1/runs")[0] == 200
    other = cluster.agent("other", endpoint=f"127.0.0.1:{daemon.port}", run="other",
                          command=["--no-python", "/bin/true"])
    assert other.wait() == 0, other.err()
    assert at_work.is_served(), "one that uses the store was cut for others"
    if "at work" not in what and "all" not in what:
        assert Client(daemon.port).is_served()
    cluster.finish(1)
    assert agent.wait() == 0, agent.err()
    assert "again" not in agent.err(), "its connection was cut for others"
    if what != "HTTP that was answered and stays":
        daemon.says(r"ulimit -n")
    assert "Too many open files" not in daemon.err()
    assert len(daemon.err().splitlines()) < 100, daemon.err()
    del peers


def hello_of(number, nodes, timeout):
    settings = {"nodes_min": nodes, "nodes_max": nodes, "timing": {"node_timeout_us": timeout}}
    return json.dumps({"type": "hello", "protocol": 4, "run_id": "many", "node": f"n{number}",
                       "session": f"{number + 1:032x}", "settings": settings}).encode() + b"\n"


def agents(port, count, nodes=None):
    """Connects so many agents of a run of `nodes`; without `run_id` each has a run of its own."""
    made = []
    for number in range(count):
        made.append(socket.create_connection(("127.0.0.1", port), LIMIT))
        made[-1].sendall(hello_of(number, nodes or count, 3600 * 10**6))
    return made


def is_welcome(peer):
    heard = b""
    peer.settimeout(LIMIT)
    with contextlib.suppress(ConnectionResetError):
        while b"\n" not in heard and (more := peer.recv(4096)):
            heard += more
    return heard.startswith(b'{"type":"welcome"')


def test_a_thousand_agents_come_back_to_a_port_that_others_fill(cluster):
    daemon = daemon_with(cluster, 2300)
    before = agents(daemon.port, 1000)
    assert all(map(is_welcome, before))
    strangers = fill(daemon.port, 5000, FILLS["all of them"])
    # As after a network cut, the daemon does not know yet that the others are gone.
    again = agents(daemon.port, 1000)
    lost = [number for number, peer in enumerate(again) if not is_welcome(peer)]
    assert not lost
    assert get(daemon.port, "/healthz")[0] == 200
    del before, strangers


@pytest.mark.parametrize("nodes", [2, 128, 1000])
def test_an_agent_that_hosts_the_daemon_has_room_for_all_the_others(cluster, nodes):
    port = free_port()
    host = cluster.agent("host", "--rdzv-conf=node_timeout=3600", endpoint=f"127.0.0.1:{port}",
                         nnodes=str(nodes), run="many")
    host.says("waiting for")
    # Clients that have used the store keep their connections.
    clients = fill(port, 2 * nodes, FILLS["store clients at work"])
    others = agents(port, nodes - 1, nodes)
    lost = [number for number, peer in enumerate(others) if not is_welcome(peer)]
    assert not lost
    host.kill(15)
    host.wait()
    del clients, others


def test_agents_that_a_full_daemon_has_no_room_for_are_told_so(cluster):
    daemon = daemon_with(cluster, 64)
    strangers = agents(daemon.port, 60)
    assert is_welcome(strangers[0])
    late = cluster.agent("late", endpoint=f"127.0.0.1:{daemon.port}", run="late")
    assert late.wait() != 0
    assert "raise its limit of open files (ulimit -n)" in late.err(), late.err()
    assert get(daemon.port, "/healthz")[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/runs"])
def test_readers_that_do_not_read_keep_no_client_out(cluster, path):
    daemon = daemon_with(cluster, 64)
    ask = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 1000
    peers = []
    for _ in range(100):
        peers.append(socket.socket())
        peers[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        peers[-1].connect(("127.0.0.1", daemon.port))
        peers[-1].setblocking(False)
        with contextlib.suppress(OSError):
            peers[-1].send(ask)
    assert get(daemon.port, "/healthz")[0] == 200


def timers_of(port):
    """For each connection that the daemon has accepted: in how many seconds the kernel will probe
    whether the peer is still there; none: it will not, or waits for an answer."""
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, state, timer = (line.split()[index] for index in (1, 3, 5))
        if int(local.split(":")[1], 16) == port and state == "01":
            keeps_alive = timer.startswith("02:")
            found.append(int(timer[3:], 16) // 100 if keeps_alive else None)
    return sorted(found, key=lambda seconds: seconds or 0)


def test_the_kernel_asks_every_peer_whether_it_is_still_there(cluster):
    daemon = daemon_with(cluster, 256)
    silent = fill(daemon.port, 1, FILLS["silent"])
    client = Client(daemon.port)
    assert client.is_served()
    http = fill(daemon.port, 1, [HALF_HTTP])
    agent = agents(daemon.port, 1)
    assert is_welcome(agent[0])

    def look():
        found = timers_of(daemon.port)
        return len(found) == 4 and None not in found and found

    timers = wait_for("a keep-alive timer on each of 4", look)
    assert all(30 <= seconds <= 60 for seconds in timers[:3]), timers
    # An agent gets the hour of its node_timeout, so it is still there when a network cut is over.
    assert 3000 <= timers[3] <= 3600, timers
    del silent, http


@pytest.mark.slow
def test_clients_on_a_host_that_vanishes_give_their_places_back(cluster, make_hosts):
    hosts = make_hosts(2)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    says = "".join(f"\\x{byte:02x}" for byte in VALIDATE + request(SET, b"/k", b"v"))
    talk = f"exec 3<>/dev/tcp/{hosts[0].address}/29400; printf '{says}' >&3; exec sleep 10000"
    for number in range(3):
        Program(cluster, f"client-{number}", ["bash", "-c", talk], prefix=hosts[1].prefix)

    def connected():
        return sum("ESTAB" in line for line in hosts[0].sockets())

    wait_for("three clients", lambda: connected() == 3)
    hosts[1].cut()
    wait_for("their places to be free", lambda: connected() == 0, 300)
    assert daemon.running()


@pytest.mark.skipif(is_built_with("address", "thread"),
                    reason="a sanitizer's own memory counts")
@pytest.mark.parametrize("said", [b'{"type":"hello","version":"', HALF_HTTP], ids=["hello", "http"])
@pytest.mark.parametrize("size", [1, 100, 4000, 16000, 32000, 49000, 65000])
def test_two_thousand_clients_that_stop_halfway_hold_little(cluster, said, size):
    daemon = daemon_with(cluster, 8192)
    assert get(daemon.port, "/healthz")[0] == 200
    before = resident_kb(daemon.pid)
    peers = fill(daemon.port, 2000, [said + b"x" * size])
    assert get(daemon.port, "/healthz")[0] == 200
    held = resident_kb(daemon.pid) - before
    print(f"2,000 times {len(said) + size} bytes: {held} KiB")
    assert held < 24 << 10, f"{held} KiB"
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))
    assert peak - before < 24 << 10, f"{peak - before} KiB"
    del peers


def test_half_a_request_over_http_is_answered_when_it_has_to_go(cluster):
    daemon = daemon_with(cluster, 64)
    peers = fill(daemon.port, 40, [HALF_HTTP])
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while more := peers[0].recv(4096):
            heard += more
    assert heard.startswith(b"HTTP/1.1 503 "), heard
