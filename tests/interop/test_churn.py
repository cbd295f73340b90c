"""Hundreds of thousands of connections that come and go leave no memory and no descriptor
behind."""

import collections
import os
import re
import socket
import struct
import subprocess
from pathlib import Path

import pytest
import wire
from wire import VALIDATE

from tests.support.cluster import LIMIT, resident_kb

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"

CONNECTIONS = {"ddprun-rendezvous": 100_000, "store_server": 30_000}
WARM_UP = 10_000
OPEN_AT_ONCE = 40
LINES_MAX = 1000
GROWTH_KB_MAX = 512  # 6 bytes for each of the daemon's connections

RESET = struct.pack("ii", 1, 0)  # no TIME_WAIT: there are only 28,000 ports to connect from

COUNT = b"/count"
SAYS = [
    ("counts", VALIDATE + wire.add(COUNT, 1)),
    ("stranger", b"\xff\xd8 nobody speaks this"),
    ("half a request", VALIDATE + wire.set_(b"/never", b"x" * 100_000)[:3000]),
    ("waits", VALIDATE + wire.wait(b"/never/one", b"/other")),
    ("silent", b""),
    ("half a hello", VALIDATE[:3]),
    ("queue", VALIDATE + wire.wait(b"/q")),
]


@pytest.fixture(params=CONNECTIONS)
def server(request, tmp_path):
    """A process that serves a store; `port` is its port."""
    command = [BIN / request.param]
    if request.param == "ddprun-rendezvous":
        command += ["--bind", "127.0.0.1", "--port", "0", "--recovery-window", "0"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(tmp_path / "log").open("w"),
        text=True)
    process.log = tmp_path / "log"
    process.connections = CONNECTIONS[request.param]
    process.port = int(re.findall(r"\d+", process.stdout.readline())[-1])
    yield process
    process.stdin.close()  # this ends a store_server
    if request.param == "ddprun-rendezvous":
        process.terminate()
    assert process.wait(LIMIT) == 0
    process.stdout.close()


def ask_count(peer):
    peer.sendall(wire.add(COUNT, 0))
    return wire.hear_i64(peer)


def churn(port, count):
    """Opens and closes so many connections of all kinds, with a few open at any time; returns how
    many clients counted."""
    counted = 0
    opened = collections.deque()
    for index in range(count):
        name, says = SAYS[index % len(SAYS)]
        peer = wire.connect(port, says)
        if name == "counts":
            wire.hear_i64(peer)
            counted += 1
        opened.append(peer)
        if len(opened) > OPEN_AT_ONCE:
            close(opened.popleft())
    for peer in opened:
        close(peer)
    return counted


def close(peer):
    # A stranger that the server has closed already is no longer connected.
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    peer.close()


def descriptors(process):
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


def settled(process, witness, descriptors_wanted):
    """Waits until the server has noticed that all others are gone; returns its number of
    descriptors."""
    for _ in range(10_000):  # each asks the server something, which makes its loop turn
        if descriptors(process) <= descriptors_wanted:
            break
        ask_count(witness)
    return descriptors(process)


def test_a_hundred_thousand_connections_leave_nothing_behind(server):
    witness = wire.connect(server.port, VALIDATE)
    ask_count(witness)
    descriptors_before = descriptors(server)
    counted = churn(server.port, WARM_UP)
    assert settled(server, witness, descriptors_before) == descriptors_before
    memory_before = resident_kb(server.pid)

    counted += churn(server.port, server.connections - WARM_UP)
    assert settled(server, witness, descriptors_before) == descriptors_before
    grown = resident_kb(server.pid) - memory_before
    print(f"{memory_before} kB after {WARM_UP}, {grown} kB more after {server.connections}")
    assert grown <= GROWTH_KB_MAX
    # Every client was counted, nothing but the count was kept, and no incomplete request was
    # applied.
    assert ask_count(witness) == counted
    witness.sendall(wire.GET_NUM_KEYS)
    assert wire.hear_i64(witness) == 1
    witness.sendall(wire.LIST_KEYS)
    assert wire.hear_i64(witness) == 1
    assert wire.hear(witness, 8 + len(COUNT)) == wire.text(COUNT)
    witness.close()
    # Tens of thousands of strangers must not cause a line each.
    assert len(server.log.read_text().splitlines()) < LINES_MAX
