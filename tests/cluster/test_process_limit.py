"""At the user's limit of processes: one line says what cannot be started, and nothing else ends. A
container's pids.max refuses in the same way."""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.cluster.test_http import get
from tests.support.cluster import BIN, LIMIT, is_built_with, wait_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="takes on another user, so needs root"),
    pytest.mark.skipif(is_built_with("thread"),
                       reason="ThreadSanitizer has a thread of its own, which counts"),
]

# The leak sanitizer needs a thread.
SANITIZER = {"ASAN_OPTIONS": "detect_leaks=0"}
# A user that nothing else uses, so that only what a test starts counts.
USER = 54_300


@pytest.fixture
def programs():
    """The programs in a folder that every user may read."""
    folder = Path(tempfile.mkdtemp(prefix="ddprun-limit-"))
    folder.chmod(0o777)
    for name in ("ddprun", "ddprun-rendezvous"):
        shutil.copy(BIN / name, folder / name)
    yield folder
    shutil.rmtree(folder)


def start(command, processes, user):
    def become():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))

    return subprocess.Popen([str(word) for word in command], preexec_fn=become, text=True,
                            cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={"PATH": os.environ["PATH"], **SANITIZER})


def none_left(user):
    def look():
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and entry.stat().st_uid == user:
                    return False
            except OSError:
                pass
        return True

    wait_for(f"no process of user {user}", look)


# A guardian, the main thread, the threads for output, service and store, then the worker.
REFUSED = {
    1: "cannot start a thread for the output",
    2: "cannot start a thread for the output",
    3: "cannot start a thread for the rendezvous daemon in this process",
    4: "cannot start a thread for the job store",
    5: "cannot start /bin/bash",
}
# Sends a request to the round's store, as PyTorch does, and waits for the reply.
WORKER = (r'exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; '
          r'printf "\x00\xCE\xF7\x85\x3C\x0D\x2A\x00\x00\x00" >&3; read -r -N 1 byte <&3; '
          r'[ "$byte" = "*" ]')


@pytest.mark.parametrize("processes", range(1, 8))
def test_an_agent_says_what_it_could_not_start(programs, processes):
    user = USER + processes
    agent = start([programs / "ddprun", "--standalone", "--check", "off", "--max-restarts", 0,
                   "--no-python", "/bin/bash", "-c", WORKER], processes, user)
    _, errors = agent.communicate(timeout=LIMIT)
    none_left(user)
    assert "terminate called" not in errors, errors
    assert agent.returncode >= 0, (signal.Signals(-agent.returncode), errors)
    assert (agent.returncode == 0) == (processes not in REFUSED), errors
    if processes in REFUSED:
        refusal = REFUSED[processes] + r"[^\n]*: Resource temporarily unavailable"
        assert re.search(refusal, errors), errors
        # The line comes once when it happens and, if that ends a run, once more as the reason. A
        # worker is first tried again for some seconds: one line says that, and another what is
        # waited for.
        assert errors.count("\n") <= 2 + 3 * ("trying" in errors), errors


def test_a_worker_starts_once_there_is_room_for_it(programs):
    user = USER + 102
    # It takes the place of one process.
    other = start(["/bin/sleep", 1000], 6, user)
    agent = start([programs / "ddprun", "--standalone", "--check", "off", "--max-restarts", 0,
                   "--no-python", "/bin/bash", "-c", WORKER], 6, user)
    errors = ""
    while "trying again" not in errors:
        line = agent.stderr.readline()
        assert line, errors
        errors += line
    other.kill()
    other.wait()
    assert re.search(r"cannot start /bin/bash[^\n]*; trying again for 5 s", errors), errors
    _, rest = agent.communicate(timeout=LIMIT)
    none_left(user)
    assert agent.returncode == 0, errors + rest
    assert "cannot" not in rest and "restart" not in rest, rest


def test_a_daemon_without_a_thread_for_its_store_serves_agents(programs):
    user = USER + 100
    port_file = programs / "port"
    daemon = start([programs / "ddprun-rendezvous", "--bind", "127.0.0.1", "--port", 0,
                    "--port-file", port_file], 2, user)  # one for the loop, one for the log
    try:
        port = int(wait_for("the port", lambda: port_file.exists() and port_file.read_text()))
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as client:
                client.sendall(b"\x00\xCE\xF7\x85\x3C")
                try:
                    assert client.recv(1) == b""
                except ConnectionResetError:
                    pass  # closed without reading what it sent
        assert get(port, "/healthz")[0] == 200
    finally:
        daemon.terminate()
        _, errors = daemon.communicate(timeout=LIMIT)
    assert daemon.returncode == 0, errors
    refusals = errors.count("closed a TCPStore client: cannot start a thread for its store")
    assert 1 <= refusals <= 30, errors


def test_a_daemon_without_a_thread_for_its_log_says_so(programs):
    daemon = start([programs / "ddprun-rendezvous", "--port", 0], 1, USER + 101)
    _, errors = daemon.communicate(timeout=LIMIT)
    assert daemon.returncode == 1
    assert errors.count("\n") == 1 and "cannot start a thread for the output" in errors, errors
