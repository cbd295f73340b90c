"""The differences from PyTorch's server that rendezvous/PROTOCOL.md names, seen on both servers."""

import collections
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist
import torch_versions
import wire
from store_client import BUILD, PYTORCH_STORE, connect, renew
from wire import PATIENCE, PING, PONG, VALIDATE, text

from tests.support.hosts import available

ROOT = Path(__file__).resolve().parents[2]
LONG_ENOUGH = 0.3  # to see that a stranger is not closed


@pytest.fixture(params=["ours", "theirs"])
def side(request, both):
    """(whether it is ours, a new server)"""
    server = both[request.param == "theirs"]
    renew(server)
    return request.param == "ours", server


def raw(server):
    return wire.connect(server.port)


def validated(server):
    made = raw(server)
    made.sendall(VALIDATE + PING)
    assert made.recv(4, socket.MSG_WAITALL) == PONG
    return made


def hears(connection, size=1, limit=PATIENCE):
    """What arrives; b"" if the server has closed, None if nothing does."""
    connection.settimeout(limit)
    try:
        return connection.recv(size, socket.MSG_WAITALL)
    except ConnectionResetError:
        return b""
    except TimeoutError:
        return None


def has_heard_nothing(connection):
    """No byte comes before the answer to a PING, so none was sent before it."""
    connection.sendall(PING)
    return hears(connection, 4) == PONG


def has_waiter(server, connection, key):
    """Sends a WAIT that the server has certainly read when this returns."""
    connection.sendall(wire.wait(key))
    assert has_heard_nothing(connection)


def test_a_validate_in_two_segments(side):
    ours, server = side
    connection = raw(server)
    connection.sendall(VALIDATE[:3])
    connect(server.port).check([])  # so that the server has read only the first part
    try:
        connection.sendall(VALIDATE[3:] + PING)
    except ConnectionError:
        assert not ours
    assert hears(connection, 4) == (PONG if ours else b"")


def test_a_stranger_is_closed_at_once(side):
    ours, server = side
    connection = raw(server)
    connection.sendall(b"G")
    assert hears(connection, 1, PATIENCE if ours else LONG_ENOUGH) == (b"" if ours else None)


def test_a_compare_set_that_stores_nothing_wakes_no_waiter(side):
    ours, server = side
    waiter = validated(server)
    has_waiter(server, waiter, b"/k")
    assert connect(server.port).compare_set("k", "expected", "new") == b"expected"
    assert has_heard_nothing(waiter) if ours else hears(waiter) == b"\0"
    assert connect(server.port).check(["k"]) is False


def test_a_push_wakes_no_client_that_waits_for_something_else(side):
    ours, server = side
    pusher, waiter = connect(server.port), validated(server)
    has_waiter(server, waiter, b"/queue")
    pusher.queue_push("queue", "first")
    assert hears(waiter) == b"\0"
    has_waiter(server, waiter, b"/k")
    pusher.queue_push("queue", "second")
    assert has_heard_nothing(waiter) if ours else hears(waiter) == b"\0"


def test_a_multi_set_is_applied_when_it_is_whole(side):
    ours, server = side
    connection, reader = validated(server), connect(server.port)
    connection.sendall(struct.pack("<BQ", 11, 2) + text(b"/a") + text(b"1") + text(b"/b"))
    if ours:
        reader.check([])
        assert reader.check(["a"]) is False
    else:
        assert reader.get("a") == b"1"
    connection.sendall(text(b"2"))
    assert (reader.get("a"), reader.get("b")) == (b"1", b"2")


def test_the_barrier_of_newer_clients(side):
    ours, server = side
    first, second = validated(server), validated(server)
    first.sendall(wire.barrier(b"/b", 2))
    second.sendall(wire.barrier(b"/b", 2))
    answers = [hears(connection) for connection in (first, second)]
    known = ours or torch_versions.has("barrier")
    assert answers == ([b"\0", b"\0"] if known else [b"", b""])


def test_a_barrier_opens_for_those_that_it_counts(side):
    """In PyTorch's server a client that waits for the barrier's key counts as one of its callers,
    and a write to the key opens it."""
    ours, server = side
    if not ours and not torch_versions.has("barrier"):
        pytest.skip("the server of this PyTorch has no barriers")
    waiter, first, last = validated(server), validated(server), validated(server)
    has_waiter(server, waiter, b"/b")
    first.sendall(wire.barrier(b"/b", 3))
    assert hears(waiter) == b"\0" if ours else has_heard_nothing(waiter)
    assert connect(server.port).add("b", 1) == 2
    if not ours:
        assert (hears(first), hears(waiter)) == (b"\0", b"\0")
    assert has_heard_nothing(first)
    last.sendall(wire.barrier(b"/b", 3))
    assert hears(last) == b"\0"
    assert hears(first) == b"\0" if ours else has_heard_nothing(first)


def test_a_value_grows_up_to_its_limit(side):
    """The limit is 64 MiB with APPEND; in both servers one request holds 8 MiB."""
    ours, server = side
    store = connect(server.port)
    for _ in range(8):
        store.append("k", "x" * (8 << 20))
    assert store.check(["k"]) is True
    store.append("k", "y")
    reply = None
    try:
        reply = store.check(["k"])
    except dist.DistNetworkError:
        pass
    assert reply is (None if ours else True)


# Runs a server in a network whose name service knows no name. Prints how many queries came while a
# client connected, and then, to show that queries are seen, for a query of its own. The name
# service has to answer, because after a query without an answer PyTorch's server makes no more.
PROBE = """
import socket, struct, subprocess, sys, threading
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
asked = []
def serve():
    while True:
        question, who = names.recvfrom(512)
        asked.append(question)
        names.sendto(question[:2] + b"\\x81\\x83" + question[4:], who)
threading.Thread(target=serve, daemon=True).start()
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
port = int(server.stdout.readline())
def queries():
    count = len(asked)
    asked.clear()
    return count
queries()
with socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.77", 0)) as client:
    client.sendall(struct.pack("<BIBI", 0, 0x3C85F7CE, 13, 7))
    assert client.recv(4, socket.MSG_WAITALL) == struct.pack("<I", 7)
    by_the_server = queries()
try:
    socket.getnameinfo(("127.0.0.77", port), socket.NI_NAMEREQD)
except socket.gaierror:
    pass
print(by_the_server, queries())
server.kill()
server.wait()
"""


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "theirs"])
def test_the_names_of_clients(tmp_path, ours):
    if not available():
        pytest.skip("this machine does not allow network namespaces (needs root)")
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    server = [BUILD / "bin/store_server"] if ours else [sys.executable, "-c", PYTORCH_STORE]
    inside = f'ip link set lo up && mount --bind {resolver} /etc/resolv.conf && exec "$@"'
    command = ["unshare", "--net", "--mount", "sh", "-c", inside, "sh"]
    done = subprocess.run([*command, sys.executable, "-c", PROBE, *server], capture_output=True,
                          text=True, timeout=PATIENCE, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked, by_the_probe = map(int, done.stdout.split())
    assert (asked > 0) == (not ours) and by_the_probe > 0, done.stdout


@pytest.mark.parametrize("request_bytes", [
    struct.pack("<B", 3) + struct.pack("<Q", 8193),
    struct.pack("<B", 1) + text(b"/k") + struct.pack("<Q", (8 << 20) + 1),
    struct.pack("<BQ", 5, 131073),
    wire.set_(b"/k", b"no number") + wire.add(b"/k", 1),
], ids=["key", "value", "keys", "add"])  # fmt: skip
def test_both_close_a_client_that_asks_for_too_much(side, request_bytes):
    _, server = side
    connection = validated(server)
    connection.sendall(request_bytes)
    assert hears(connection) == b""


def test_every_difference_on_the_page_names_a_test_that_exists():
    page = (ROOT / "rendezvous/PROTOCOL.md").read_text()
    table = page.split("### Differences from PyTorch's server")[1].split("\n#")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ") and "`" in row]
    assert len(rows) >= 8
    sources = collections.defaultdict(str)
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("tests/**/*.cpp")]:
        sources[path.name] += path.read_text()
    for row in rows:
        named = re.findall(r"`(\w+\.(?:py|cpp)): ([^`]+)`", row)
        assert named, row
        for name, test in named:
            pattern = f'TEST_CASE("{test}"' if name.endswith("cpp") else f"def {test}("
            assert pattern in sources[name], (name, test)
