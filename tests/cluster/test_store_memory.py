"""The memory that a store uses in its process, compared with its cap. People rely on the cap when
they size a host, so it includes the cost of bookkeeping."""

import re
import socket
import struct
import threading
from itertools import count
from pathlib import Path

import pytest

from tests.cluster.test_http import get
from tests.interop.wire import PING, VALIDATE, add, barrier, text
from tests.support.cluster import LIMIT, is_built_with

pytestmark = pytest.mark.skipif(
    is_built_with("address", "thread"), reason="a sanitizer's own memory counts")

CAP_MIB = 64
CAP = CAP_MIB << 20
MOST = 1.5
TRIES = 3  # connections, one after the other, each of which stores more than the cap

SET, COMPARE_SET, GET, WAIT, APPEND, MULTI_GET, MULTI_SET, PUSH, LIST_KEYS = (
    1, 2, 3, 6, 9, 10, 11, 14, 17)


def request(code, *strings):
    return bytes([code]) + b"".join(map(text, strings))


def counted(code, strings, each=1):
    return struct.pack("<BQ", code, len(strings) // each) + b"".join(map(text, strings))


def key(number):
    return b"/k%d" % number


def blocks(make, bytes_max=4 * CAP):
    """What `make` returns for 0, 1, 2 and so on, in blocks that are sent at once."""
    block, total = [], 0
    size = 0
    for number in count():
        block.append(make(number))
        size += len(block[-1])
        if size > 1 << 18:
            yield b"".join(block)
            total += size
            block, size = [], 0
            if total > bytes_max:
                return


def repeated_keys(make, keys):
    return blocks(lambda number: make(key(number % keys), number))


STORING = {
    "small SETs": lambda: blocks(lambda n: request(SET, key(n), b"")),
    "SETs just too long to be in place": lambda: blocks(
        lambda n: request(SET, b"/key%012d" % n, b"v" * 16)),
    "SETs of 100 bytes": lambda: blocks(lambda n: request(SET, key(n), b"v" * 100)),
    "SETs of 5,000 bytes": lambda: blocks(lambda n: request(SET, key(n), b"v" * 5000)),
    "SETs of 1 MB": lambda: blocks(lambda n: request(SET, key(n), b"v" * 1000000)),
    "SETs of 8 MB": lambda: blocks(lambda n: request(SET, key(n), b"v" * (8 << 20))),
    "SETs of growing values": lambda: repeated_keys(
        lambda k, n: request(SET, k, b"v" * (3000 * (n // 4000))), 4000),
    "SETs of shrinking values": lambda: blocks(
        lambda n: request(SET, key(n), b"v" * 1000) + request(SET, key(n), b"v" * 470)),
    "small APPENDs": lambda: repeated_keys(
        lambda k, n: request(APPEND, k, b"v" * 17), 60000),
    "values that grow by an APPEND": lambda: blocks(
        lambda n: request(SET, key(n), b"v" * 1000) + request(APPEND, key(n), b"v")),
    "APPENDs to one value": lambda: blocks(lambda n: request(APPEND, key(n // 7000), b"v" * 1000)),
    "MULTI_SETs": lambda: blocks(lambda n: counted(
        MULTI_SET, [part for m in range(100) for part in (key(100 * n + m), b"v")], 2)),
    "QUEUE_PUSHes to new keys": lambda: blocks(lambda n: request(PUSH, key(n), b"v")),
    "QUEUE_PUSHes to one key": lambda: blocks(lambda n: request(PUSH, b"/q", b"")),
    "QUEUE_PUSHes of 100 bytes": lambda: blocks(lambda n: request(PUSH, b"/q", b"v" * 100)),
    # These requests have replies, which have to be read.
    "COMPARE_SETs": lambda: blocks(lambda n: request(COMPARE_SET, key(n), b"", b"v")),
    "ADDs": lambda: blocks(lambda n: add(key(n), 1 << 60)),
}
WAITING = {
    "WAITs for many keys": lambda: [
        counted(WAIT, [b"/%d/%d" % (WAITING_CLIENT[0], n) for n in range(100000)])],
    "WAITs for the same keys": lambda: [counted(WAIT, [key(n) for n in range(100000)])],
    "WAITs that are withdrawn": lambda: [
        counted(WAIT, [key(n) for n in range(100000)])
        + (b"\x0c" if WAITING_CLIENT[0] % 10 else b"")],
    "BARRIERs": lambda: [barrier(b"/%d" % WAITING_CLIENT[0] + b"b" * 8000, 9)],
}
WAITING_CLIENT = [0]
UNFINISHED = {
    "SETs": lambda: request(SET, b"/k", b"v" * (8 << 20))[:-1],
    "MULTI_SETs of empty strings": lambda: counted(MULTI_SET, [b""] * 262144, 2)[:-1],
    "MULTI_GETs of empty strings": lambda: counted(MULTI_GET, [b""] * 131072)[:-1],
    "WAITs of small strings": lambda: counted(WAIT, [b"k"] * 131072)[:-1],
    "MULTI_SETs of large values": lambda: counted(MULTI_SET, [b"k", b"v" * (4 << 20)] * 4, 2)[:-1],
}


class Client:
    def __init__(self, port, reads=False):
        self.socket = socket.create_connection(("127.0.0.1", port), LIMIT)
        if reads:
            threading.Thread(target=self.read_all, daemon=True).start()
        self.socket.sendall(VALIDATE)

    def read_all(self):
        try:
            while self.socket.recv(1 << 20):
                pass
        except OSError:
            pass

    def says(self, data):
        """False if the store has closed."""
        try:
            self.socket.sendall(data)
            return True
        except (ConnectionResetError, BrokenPipeError):
            return False

    def is_served(self):
        if not self.says(PING):
            return False
        try:
            while heard := self.socket.recv(1 << 20):
                if heard.endswith(PING[1:]):
                    return True
        except ConnectionResetError:
            pass
        return False


def peak_of(daemon):
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10


def check(daemon, what):
    peak = peak_of(daemon)
    print(f"{what}: {peak / CAP:.2f} of the cap ({peak >> 20} MiB)")
    assert get(daemon.port, "/healthz")[0] == 200
    assert peak <= MOST * CAP, (what, peak / CAP)


@pytest.fixture
def daemon(cluster):
    return cluster.daemon(0, "--store-memory", CAP_MIB)


@pytest.mark.parametrize("what", STORING)
def test_what_is_stored_stays_within_the_cap(daemon, what):
    for _ in range(TRIES):
        client = Client(daemon.port, reads=True)
        assert not all(client.says(block) for block in STORING[what]()), "the cap was never met"
    check(daemon, what)


@pytest.mark.parametrize("what", WAITING)
def test_clients_that_wait_stay_within_the_cap(daemon, what):
    clients = []
    for number in range(60):
        WAITING_CLIENT[0] = number
        clients.append(Client(daemon.port))
        for block in WAITING[what]():
            clients[-1].says(block)
    Client(daemon.port).is_served()
    check(daemon, what)


@pytest.mark.parametrize("what", UNFINISHED)
def test_unfinished_requests_stay_within_the_cap(daemon, what):
    unfinished = UNFINISHED[what]()
    clients = []
    for _ in range(max(12, 4 * CAP // len(unfinished))):
        clients.append(Client(daemon.port))
        clients[-1].says(unfinished)
    Client(daemon.port).is_served()
    check(daemon, what)


def test_values_and_unfinished_requests_share_the_cap(daemon):
    filler = Client(daemon.port)
    for block in STORING["SETs of 5,000 bytes"]():
        if not filler.says(block):
            break
    clients = []
    for _ in range(40):
        clients.append(Client(daemon.port))
        clients[-1].says(UNFINISHED["SETs"]())
    Client(daemon.port).is_served()
    check(daemon, "both")


@pytest.mark.parametrize("what", ["one value each", "all keys", "many values each"])
def test_readers_that_take_nothing_stay_within_the_cap(daemon, what):
    writer = Client(daemon.port)
    readers = []
    keys = [key(n) for n in range(20000)]
    writer.says(b"".join(request(SET, k, b"v" * 900) for k in keys))
    assert writer.is_served()
    for number in range(60):
        readers.append(Client(daemon.port))
        if what == "one value each":
            writer.says(request(SET, b"/large", bytes([number]) * (4 << 20)))
            writer.is_served()
            readers[-1].says(request(GET, b"/large"))
        elif what == "all keys":
            readers[-1].says(bytes([LIST_KEYS]) * 100)
        else:
            readers[-1].says(counted(MULTI_GET, keys))
    Client(daemon.port).is_served()
    check(daemon, what)


def test_an_honest_request_outlives_ten_half_sent_ones(daemon):
    most = UNFINISHED["SETs"]()
    hoarders = []
    for _ in range(10):
        hoarders.append(Client(daemon.port))
        hoarders[-1].says(most)
    value = bytes(range(256)) * (8 << 12)
    honest = Client(daemon.port)
    assert honest.says(request(SET, b"/honest", value))
    assert honest.is_served()
    assert honest.says(request(GET, b"/honest"))
    heard = b""
    while len(heard) < 8 + len(value):
        heard += honest.socket.recv(1 << 20)
    assert heard == text(value)
