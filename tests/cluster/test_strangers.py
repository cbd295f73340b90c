"""Strangers that use up the descriptors or the memory that a process may have: their requests fail,
and the agent and the daemon go on."""

import contextlib
import resource
import socket
import struct
import subprocess

import pytest

from tests.cluster.test_http import get
from tests.cluster.test_store_memory import PING, SET, VALIDATE, Client, blocks, request
from tests.support.cluster import BIN, LIMIT, Program, is_built_with, wait_for

DESCRIPTORS = 256
WORKER = r'echo "$MASTER_PORT" >"$0/master.new"; mv "$0/master.new" "$0/master"; cat "$0/end"'


def with_limit(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


@pytest.fixture(autouse=True)
def many_descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def once_there_is_room(served):
    """It takes a moment until the store notices that the strangers have closed."""
    def look():
        try:
            return served()
        except OSError:
            return False

    wait_for("room for one more", look)


def strangers(port, validated):
    """300 connections, of which so many send VALIDATE, and then nothing."""
    made = []
    for number in range(300):
        peer = socket.create_connection(("127.0.0.1", port), LIMIT)
        if number < validated:
            with contextlib.suppress(OSError):  # it was turned away already
                peer.sendall(VALIDATE)
        made.append(peer)
    return made


@pytest.mark.parametrize("validated", [0, 1, 150, 300])
def test_an_agent_outlives_more_strangers_than_it_has_descriptors(cluster, validated):
    subprocess.run(["mkfifo", cluster.folder / "end"], check=True)
    agent = Program(cluster, "agent", [BIN / "ddprun", "--standalone", "--max-restarts", 0,
                                       "--no-python", "/bin/sh", "-c", WORKER, cluster.folder],
                    preexec_fn=with_limit(resource.RLIMIT_NOFILE, DESCRIPTORS))
    file = cluster.folder / "master"
    port = int(wait_for("the round's port", lambda: file.exists() and file.read_text()))
    peers = strangers(port, validated)
    for peer in peers:
        peer.close()

    def is_answered():
        with socket.create_connection(("127.0.0.1", port), LIMIT) as client:
            client.sendall(VALIDATE + PING)
            return client.recv(4) == PING[1:]

    once_there_is_room(is_answered)
    with open(cluster.folder / "end", "w"):
        pass
    assert agent.wait() == 0, agent.err()


@pytest.mark.parametrize("validated", [0, 1, 300])
def test_a_daemon_outlives_more_strangers_than_it_has_descriptors(cluster, validated):
    daemon = cluster.daemon(prefix=["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$0" "$@"'])
    peers = strangers(daemon.port, validated)
    for peer in peers:
        peer.close()
    once_there_is_room(lambda: get(daemon.port, "/healthz")[0] == 200)
    once_there_is_room(lambda: Client(daemon.port).is_served())
    daemon.kill(15)
    assert daemon.wait() == 0, daemon.err()


@pytest.mark.skipif(is_built_with("address", "thread"),
                    reason="a sanitizer reserves more than any limit")
@pytest.mark.parametrize("size", [100, 100_000, 8 << 20])
# How much is left, and which step finds too little, depends on malloc().
@pytest.mark.parametrize("malloc", ["", "glibc.malloc.tcache_count=0"], ids=["", "no cache"])
def test_a_daemon_without_memory_closes_the_client_that_asks_and_goes_on(cluster, size, malloc):
    # A tenth of what the cap would allow.
    daemon = cluster.daemon(0, "--store-memory", 4096, prefix=[
        "env", f"GLIBC_TUNABLES={malloc}", "prlimit", f"--as={400 << 20}"])
    witness = Client(daemon.port)
    assert witness.is_served()
    for attempt in range(3):
        client = Client(daemon.port)
        more = blocks(lambda n: request(SET, b"/%d/%d" % (attempt, n), b"v" * size), 2 << 30)
        assert not all(client.says(block) for block in more), "there was memory enough"
    # A stranger that needs little is served.
    assert witness.says(b"\7")  # the number of keys
    assert struct.unpack("<q", witness.socket.recv(8))[0] > 0
    if size > 1000:  # otherwise no client gets any memory
        assert get(daemon.port, "/healthz")[0] == 200
        assert Client(daemon.port).is_served()
    assert daemon.running(), daemon.err()
