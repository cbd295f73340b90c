"""Another user of the same host: nothing that it can see lets it end or take over a job, and
without --allow-other-users it is refused."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.cluster import BIN, LIMIT, WORKER, Program, get, variables_of, wait_for
from tests.support.ports import free_port, listening

NOBODY = 65534
SECRET = f"{7:032x}"  # of a session that a test opens by hand

# Sends lines to a port of this host and prints the first line that comes back; none if it is
# closed.
TALKER = r"""
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60)
try:
    peer.sendall(sys.stdin.buffer.read())
    heard = b""
    while b"\n" not in heard and (more := peer.recv(65536)):
        heard += more
    sys.stdout.buffer.write(heard)
except ConnectionError:
    pass
"""

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")


def hello(session, run="test", **more):
    return {"type": "hello", "protocol": 4, "run_id": run, "session": session, "node": "thief",
            **more}


def word(session, run="test"):
    return {"type": "guardian_word", "run_id": run, "session": session}


def leaving(session, run="test"):
    """A message of the node that has this session, which would end the whole run."""
    status = {"type": "status", "seq": 1, "phase": "stopped", "draining": True, "signal": 2}
    return [hello(session, run), status, {"type": "goodbye", "session": session}]


def lines(*messages):
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def say(port, *messages, user=None):
    """What the port answers if all these are sent at once."""
    ids = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run([sys.executable if user is None else "/usr/bin/python3", "-c", TALKER,
                           str(port)], input=lines(*messages), stdout=subprocess.PIPE, check=True,
                          timeout=LIMIT, cwd="/", **ids)
    return done.stdout.decode()


@contextlib.contextmanager
def session(port, secret=SECRET, **more):
    """A connection that has sent a hello and stays open."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as peer:
        peer.sendall(lines({**hello(secret, **more), "node": "victim"}))
        heard = b""
        while b'"desired"' not in heard:
            heard += peer.recv(65536)
        yield peer


def lives(peer):
    """Checks that the daemon still answers this connection for this session."""
    peer.sendall(lines({"type": "status", "seq": 77}))
    heard = b""
    with contextlib.suppress(ConnectionError):
        while b'"seq":77' not in heard:
            more = peer.recv(65536)
            if not more:
                break
            heard += more
    return b'{"type":"ack","seq":77}' in heard


WAITS = {"settings": {"nodes_min": 2, "nodes_max": 2}}


@needs_root
@pytest.mark.parametrize("attack", [[word(SECRET)], [hello(SECRET, **WAITS)], leaving(SECRET),
                                    [hello("1" * 32, **WAITS)]])
def test_another_user_is_refused_even_with_the_secret(cluster, attack):
    daemon = cluster.daemon()
    with session(daemon.port, **WAITS) as peer:
        answer = json.loads(say(daemon.port, *attack, user=NOBODY).splitlines()[0])
        assert answer["type"] == "refused"
        assert answer["text"] == (
            "this port of uid 0 accepts no agents of other users of its host (uid 65534): run "
            "ddprun as the same user, or start what listens here with --allow-other-users")
        assert lives(peer)
    daemon.says("refused 127.0.0.1: this port of uid 0")


@needs_root
def test_one_that_is_gone_before_it_is_asked_is_not_heard(cluster):
    """It closes at once, after it has sent what it had to send."""
    daemon = cluster.daemon()
    closing = TALKER.partition("    heard = ")[0] + "    peer.close()\nfinally:\n    pass\n"
    daemon.kill(subprocess.signal.SIGSTOP)
    with socket.create_connection(("127.0.0.1", daemon.port), LIMIT) as early:
        subprocess.run(["/usr/bin/python3", "-c", closing, str(daemon.port)], check=True, cwd="/",
                       input=lines(hello(SECRET, run="ghost")), user=NOBODY, group=NOBODY,
                       extra_groups=[], timeout=LIMIT)
        daemon.kill(subprocess.signal.SIGCONT)
        early.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        early.recv(100)
    daemon.says("refused 127.0.0.1: this port .* has closed its connection")
    assert "ghost" not in get(daemon.port, "/api/v1/runs")[1]


@needs_root
def test_other_users_may_be_allowed(cluster):
    daemon = cluster.daemon(None, "--allow-other-users")
    with session(daemon.port, **WAITS) as peer:
        assert '"welcome"' in say(daemon.port, hello("1" * 32, run="other"), user=NOBODY)
        say(daemon.port, word("1" * 32), user=NOBODY)  # a session that is not connected
        assert lives(peer)


@needs_root
def test_root_and_the_same_user_are_let_in(cluster):
    """The daemon belongs to a user; that user's agents and root's are accepted."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(BIN / "ddprun-rendezvous", folder)
        daemon = Program(cluster, "daemon", [program, "--bind=127.0.0.1", "--port", port,
                                             "--state-dir=none", "--recovery-window=0"],
                         user=NOBODY, group=NOBODY, extra_groups=[])
        daemon.says("listens on")
    for user in (None, NOBODY):
        assert '"welcome"' in say(port, hello(SECRET), user=user)
    assert '"refused"' in say(port, hello(SECRET), user=1)


@needs_root
def test_a_job_of_another_user_outlives_a_daemon_that_refuses_it(cluster):
    """The daemon that accepted it is gone, and the daemon of a user who accepts no other has its
    port."""
    allowing = cluster.daemon(None, "--allow-other-users")
    port = allowing.port
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(BIN / "ddprun", folder)
        over = Path(folder) / "over"
        line = [program, "--nnodes=1:2", "--rdzv-id=test", f"--rdzv-endpoint=127.0.0.1:{port}",
                "--rdzv-conf=last_call_timeout=0.1", "--embed-daemon=never", "--no-python", "sh",
                "-c", f"echo works; until [ -e {over} ]; do sleep 0.05; done"]
        agent = Program(cluster, "agent", line, user=NOBODY, group=NOBODY, extra_groups=[],
                        environment={"TMPDIR": "/tmp", "HOME": "/nonexistent"})
        agent.says("works")
        allowing.kill()
        allowing.wait()
        refusing = cluster.daemon(port, "--state-dir=none")
        agent.says("turned this node away: this port of uid 0 accepts no agents of other users of "
                   "its host")
        refusing.kill()
        refusing.wait()
        assert agent.running() and "refused this node" not in agent.err()
        cluster.daemon(port, "--allow-other-users", "--state-dir=none")
        agent.says("reached the rendezvous daemon at .* again")
        over.touch()
        assert agent.wait() == 0, agent.err()


def strings_of(text):
    """Everything that could be a session: 32 hexadecimal digits in a row, wherever they begin."""
    found = re.findall(r"(?=([0-9a-f]{32}))", text)
    halves = re.findall(r"(?=([0-9a-f]{16}))", text)
    return {*found, *(first + second for first in halves[:40] for second in halves[:40])}


def names_below(folder):
    return "\n".join(str(path) for path in folder.rglob("*"))


def all_that_is_seen(cluster, port, texts):
    """Everything that can be seen: over HTTP, in environments and command lines of all processes,
    in names, in logs."""
    runs = json.loads(get(port, "/api/v1/runs")[1])["runs"]
    seen = [get(port, "/api/v1/runs")[1], names_below(cluster.folder), *texts]
    seen += [get(port, f"/api/v1/runs/{run['run_id']}")[1] for run in runs]
    for pid, line in cluster.marked().items():
        seen += [line, b"\n".join(variables_of(pid)).decode(errors="replace")]
    return [run["run_id"] for run in runs], "\n".join(seen)


@pytest.mark.main_path
def test_nothing_that_can_be_seen_is_the_secret(cluster):
    """The job has no id from its user; everything is tried as its own user, who is not refused."""
    agent = job_without_an_id(cluster)
    [worker] = cluster.started(1, 1)
    port = port_of_daemon(agent)
    folder = cluster.folder
    wait_for("the log folder", lambda: "attempt_0" in names_below(folder / "logs"))
    [run], seen = all_that_is_seen(cluster, port, [agent.err(), agent.out()])
    tried = sorted(strings_of(seen))
    assert run in tried  # the id that it has drawn itself is one of them
    for secret in tried:
        with socket.create_connection(("127.0.0.1", port), LIMIT) as peer:
            peer.sendall(lines(word(secret, run)))
            peer.recv(100)  # when that is closed, it has been read
    for secret in [run, *tried[:20]]:
        say(port, *leaving(secret, run + "x"))
        say(port, {**hello(secret, run), "worker_count": 2, "settings": {"nodes_max": 2}})
    assert [e.pid for e in cluster.events("start")] == [worker.pid]
    assert "round 2" not in agent.err() and "warning: round" not in agent.err()
    cluster.finish(1)
    assert agent.wait() == 0, agent.err()


def job_without_an_id(cluster):
    """With all options that create files."""
    line = [BIN / "ddprun", f"--log-dir={cluster.folder / 'logs'}", "--redirects=3",
            "--log-level=debug", "--max-restarts=3", "--no-python", WORKER]
    return Program(cluster, "agent", line, environment={
        "TMPDIR": str(cluster.folder), "TORCHELASTIC_ENABLE_FILE_TIMER": "1"})


def port_of_daemon(agent):
    def is_it(port):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return get(port, "/healthz") == (200, "ok\n")

    return next(port for _, port in listening(agent.pid) if is_it(port))


@needs_root
def test_another_user_hangs_no_tether_on_a_round(cluster):
    agent = job_without_an_id(cluster)
    [worker] = cluster.started(1, 1)
    port = int(worker.master.rpartition(":")[2])
    greeting = {"type": "tether_hello", "instance": worker.instance, "round": 1, "group_rank": 1,
                "session": SECRET}
    assert "of other users of its host (uid 65534)" in say(port, greeting, user=NOBODY)
    assert "has no member 1" in say(port, greeting)
    cluster.finish(1)
    assert agent.wait() == 0, agent.err()
