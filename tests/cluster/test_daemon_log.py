"""The daemon's log is for people, and nobody has to read it: the daemon's service never waits for
it."""

import fcntl
import json
import os
import re
import select
import socket
import time

from tests.cluster.test_http import get
from tests.support.cluster import LIMIT

MUCH = 1 << 20


class UnreadPipe:
    """A named pipe as a program's standard error; it is not read until `read` is called."""

    def __init__(self, folder):
        self.path = folder / "unread"
        os.mkfifo(self.path)
        self.handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        # The first argument is $0.
        self.prefix = ["sh", "-c", 'exec "$@" 2>"$0"', self.path]

    def waiting(self):
        bytes_ready = bytearray(4)
        fcntl.ioctl(self.handle, 0x541B, bytes_ready)  # FIONREAD
        return int.from_bytes(bytes_ready, "little")

    def read_until(self, pattern):
        """Reads up to the first match of the pattern, and returns all of it."""
        text = ""
        deadline = time.monotonic() + LIMIT
        while not re.search(pattern, text):
            assert time.monotonic() < deadline, f"no /{pattern}/ in: ...{text[-2000:]}"
            if select.select([self.handle], [], [], 1)[0]:
                text += os.read(self.handle, MUCH).decode()
        return text


def say(port, message):
    """Sends one line and waits for the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as peer:
        peer.sendall(message.encode() + b"\n")
        heard = b""
        while chunk := peer.recv(4096):
            heard += chunk
    return heard.decode()


def refused_hello(number, run="test"):
    # Its settings say two nodes, the run's say one, so it is refused once the run has a round. A
    # long name makes a long line.
    return json.dumps({
        "type": "hello", "protocol": 4, "run_id": run, "session": f"{number + 1:032x}",
        "node": "n" * 200, "host": "h", "settings": {"nodes_min": 2, "nodes_max": 2},
    })


def serves(cluster, daemon, agent):
    """Checks that old and new agents are served as usual."""
    assert get(daemon.port, "/healthz")[0] == 200
    other = cluster.agent("node-z", endpoint=f"127.0.0.1:{daemon.port}", run="other",
                          command=["--no-python", "true"])
    assert other.wait() == 0, other.err()
    cluster.finish(1)
    assert agent.wait() == 0, agent.err()
    assert {event.round for event in cluster.events("start")} == {"1"}


def test_refused_hellos_neither_stop_the_daemon_nor_fill_its_log(cluster):
    pipe = UnreadPipe(cluster.folder)
    daemon = cluster.daemon(prefix=pipe.prefix)
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}")
    cluster.started(1, 1)
    for number in range(500):
        assert "refused" in say(daemon.port, refused_hello(number))
    serves(cluster, daemon, agent)
    daemon.kill(15)
    text = pipe.read_until(r"stopping on SIGTERM")
    assert 1 <= text.count("refused nnn") < 50, text
    # The lines that were left out hide no others.
    assert "other: round 1" in text, text
    assert daemon.wait() == 0


def test_an_unread_log_stops_nothing_and_says_what_it_left_out(cluster):
    pipe = UnreadPipe(cluster.folder)
    daemon = cluster.daemon(0, "--log-level", "debug", prefix=pipe.prefix)
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}")
    cluster.started(1, 1)
    # Each causes a line of a hundred bytes, together more than pipe and queue hold.
    for _ in range(4000):
        assert "refused" in say(daemon.port, '{"type":"status","seq":1}')
    serves(cluster, daemon, agent)
    text = pipe.read_until(r"(\d+) lines were left out here")
    left_out = int(re.search(r"(\d+) lines were left out here", text).group(1))
    assert left_out + text.count("\n") >= 4000, left_out
    # Lines are written again as before.
    say(daemon.port, '{"type":"status","seq":1}')
    pipe.read_until("ended: the first message of a session is its hello")
    daemon.kill(15)
    pipe.read_until("stopping on SIGTERM")
    assert daemon.wait() == 0


def test_a_daemon_with_an_unread_log_starts_and_ends(cluster):
    pipe = UnreadPipe(cluster.folder)
    # The pipe is full before the program has written a byte.
    filler = os.open(pipe.path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(filler, b"x" * 4096)
    except BlockingIOError:
        pass
    daemon = cluster.daemon(prefix=pipe.prefix)
    assert get(daemon.port, "/healthz")[0] == 200
    full = pipe.waiting()
    daemon.kill(15)
    assert daemon.wait() == 0
    assert pipe.waiting() == full
    os.close(filler)
