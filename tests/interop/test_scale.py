"""Ten thousand clients of one daemon at the same time."""

import resource
from pathlib import Path

import pytest
import wire
from wire import PING, PONG, VALIDATE, hear

from tests.support.cluster import resident_kb, wait_for

CLIENTS = 10_000
# The limit of this process; the daemon has the same, of which TCPStore may take well over half.
DESCRIPTORS = 18_000
KB_EACH_MAX = 8


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f"the hard limit of open files is {hard}, and {DESCRIPTORS} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(port, says):
    return wire.connect(port, VALIDATE + says)


def test_ten_thousand_wait_for_one_key(cluster, many_descriptors):
    daemon = cluster.daemon()
    before = resident_kb(daemon.pid)
    waiting = []
    try:
        for _ in range(CLIENTS):
            # The request that is answered has been read, and so has the wait after it.
            waiting.append(connect(daemon.port, PING + wire.wait(b"/go")))
        assert all(hear(peer, 4) == PONG for peer in waiting)
        each = (resident_kb(daemon.pid) - before) / CLIENTS
        print(f"{each:.1f} kB for each of {CLIENTS}")
        assert each <= KB_EACH_MAX
        with connect(daemon.port, wire.set_(b"/go", b"now")) as setter:
            assert all(hear(peer, 1) == b"\0" for peer in waiting)
            setter.sendall(PING)
            assert hear(setter, 4) == PONG
    finally:
        for peer in waiting:
            peer.close()
    # All their connections are free again.
    descriptors = Path(f"/proc/{daemon.pid}/fd")
    wait_for("the daemon to close them all", lambda: len(list(descriptors.iterdir())) < 100)


def test_a_daemon_that_is_full_says_so_and_serves_those_it_has(cluster):
    """The limit of open files determines the number of connections, of which TCPStore has a
    share."""
    limit = 100
    daemon = cluster.daemon(prefix=["prlimit", f"--nofile={limit}:{limit}"])
    served = []
    for _ in range(2 * limit):
        try:
            peer = connect(daemon.port, wire.set_(b"/used", b"it") + PING)
            if hear(peer, 4) == PONG:
                served.append(peer)
            else:
                peer.close()
        except ConnectionError:
            pass
    assert limit / 8 < len(served) < limit / 2
    daemon.says(rf"the port is full: one of {len(served)} connections is closed "
                r"\(TCPStore: .* \(ulimit -n\)")
    for peer in served:
        peer.sendall(PING)
        assert hear(peer, 4) == PONG
    # As soon as some are gone, others are served.
    for peer in served:
        peer.close()

    def there_is_room():
        try:
            with connect(daemon.port, PING) as peer:
                return hear(peer, 4) == PONG
        except ConnectionError:
            return False

    wait_for("room for another", there_is_room)
