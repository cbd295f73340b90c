"""The daemon under a service manager: systemd's variables, descriptors, datagrams and units."""

import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from tests.support.cluster import BIN, LIMIT, ROOT, Program
from tests.support.ports import free_port

UNITS = ROOT / "rendezvous/systemd"
DAEMON = [BIN / "ddprun-rendezvous", "--recovery-window", "0"]


class Manager:
    """The manager's end of the socket: what the service has sent."""

    def __init__(self, folder):
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(LIMIT)

    def next(self):
        return self.socket.recv(4096).decode().splitlines()


def with_sockets(cluster, name, sockets, *arguments, environment=None):
    """A daemon that has `sockets` from descriptor 3 on, as systemd passes them."""
    numbers = [one.fileno() for one in sockets]
    # First to descriptors that are not among the new ones.
    moves = "".join(f"exec {50 + place}<&{number} {number}<&-; "
                    for place, number in enumerate(numbers))
    moves += "".join(f"exec {3 + place}<&{50 + place} {50 + place}<&-; "
                     for place in range(len(numbers)))
    line = f'{moves} export LISTEN_PID=$$ LISTEN_FDS={len(numbers)}; exec "$@"'
    return Program(cluster, name, ["bash", "-c", line, "bash", *DAEMON, *arguments],
                   environment=environment, pass_fds=numbers)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def run_job(cluster, port, name="job"):
    job = cluster.agent(None, "--embed-daemon", "never", endpoint=f"127.0.0.1:{port}",
                        command=["--no-python", "/bin/true"])
    assert job.wait() == 0, job.err()


def test_the_manager_hears_when_it_is_ready_alive_and_about_to_end(cluster):
    manager, port = Manager(cluster.folder), free_port()
    daemon = Program(cluster, "daemon", [*DAEMON, "--port", port, "--state-dir", "none"],
                     environment={"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "200000"})
    assert manager.next() == ["READY=1", f"STATUS=listens on port {port}, 0 agents"]
    socket.create_connection(("127.0.0.1", port), LIMIT).close()  # what "ready" promises
    for _ in range(3):
        assert manager.next() == ["WATCHDOG=1", f"STATUS=listens on port {port}, 0 agents"]
    agent = cluster.agent("a", endpoint=f"127.0.0.1:{port}")
    while manager.next()[1] != f"STATUS=listens on port {port}, 1 agent":
        pass
    agent.kill(signal.SIGTERM)
    agent.wait()
    daemon.kill(signal.SIGTERM)
    while manager.next() != ["STOPPING=1"]:
        pass
    assert daemon.wait() == 0


def test_a_manager_that_is_not_there_is_named_and_done_without(cluster):
    daemon = Program(cluster, "daemon", [*DAEMON, "--port", "0"],
                     environment={"NOTIFY_SOCKET": "/nowhere/notify"})
    port = daemon.says(r"listening on port (\d+)")[1]
    daemon.says("cannot tell the service manager at NOTIFY_SOCKET=/nowhere/notify: No such file")
    run_job(cluster, port)


def test_a_port_that_the_manager_has_opened_refuses_no_connection(cluster, listening):
    """A node that connects between two daemons waits in the backlog."""
    port = listening.getsockname()[1]
    first = with_sockets(cluster, "first", [listening], "--state-dir", "none")
    first.says(f"listens on port {port}, given by the service manager")
    run_job(cluster, port)
    first.kill()
    first.wait()
    between = cluster.agent("a", "--embed-daemon", "never", endpoint=f"127.0.0.1:{port}",
                            command=["--no-python", "/bin/true"])
    between.says(f"127.0.0.1:{port}|here:|waiting")
    second = with_sockets(cluster, "second", [listening], "--state-dir", "none")
    assert between.wait() == 0, between.err()
    assert "refused" not in between.err()
    second.kill(signal.SIGTERM)
    assert second.wait() == 0
    socket.create_connection(("127.0.0.1", port), LIMIT).close()  # the port belongs to the manager


def test_state_is_kept_by_the_port_that_was_given(cluster, listening):
    daemon = with_sockets(cluster, "daemon", [listening],
                          environment={"STATE_DIRECTORY": str(cluster.folder / "kept")})
    daemon.says("persists its state in ")
    (folder,) = (cluster.folder / "kept").iterdir()
    assert folder.name.endswith(f"-{listening.getsockname()[1]}")


def test_two_sockets_are_two_doors_to_one_daemon(cluster, listening):
    with socket.create_server(("127.0.0.1", 0)) as other:
        with_sockets(cluster, "daemon", [listening, other], "--state-dir", "none").says("listening")
        for one in (listening, other):
            run_job(cluster, one.getsockname()[1])


def test_what_is_no_listening_socket_is_one_clear_line(cluster):
    def ends(daemon, words):
        assert daemon.wait() == 1
        assert re.fullmatch(f"ddprun-rendezvous: {words}\n", daemon.err()), daemon.err()

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wrong:
        ends(with_sockets(cluster, "datagrams", [wrong], "--state-dir", "none"),
             "cannot listen on the given descriptor 3: it is not a TCP socket that listens")
    for count, words in (("2", "LISTEN_FDS=2: descriptor 3 is not open: Bad file descriptor"),
                         ("x", "LISTEN_FDS=x: no number of sockets .*")):
        line = f'exec 3<&-; export LISTEN_PID=$$ LISTEN_FDS={count}; exec "$@"'
        ends(Program(cluster, "closed", ["bash", "-c", line, "bash", *DAEMON]), words)


def test_sockets_of_another_process_are_left_alone(cluster):
    daemon = Program(cluster, "daemon", [*DAEMON, "--port", "0"],
                     environment={"LISTEN_PID": "1", "LISTEN_FDS": "1"})
    run_job(cluster, daemon.says(r"listening on port (\d+)")[1])


def test_systemds_own_activation_starts_it_for_the_first_agent(cluster):
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("no systemd-socket-activate here (Debian's package systemd)")
    port = free_port()
    manager = Program(cluster, "systemd", [activate, "-l", f"127.0.0.1:{port}", *DAEMON,
                                           "--state-dir", "none"])
    manager.says("Listening on")
    assert "listening on port" not in manager.out()  # no connection has come yet
    run_job(cluster, port)
    manager.says(f"listens on port {port}, given by the service manager")


@pytest.fixture
def analyze(tmp_path):
    """Runs systemd-analyze on our units, with the programs of this build."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here (Debian's package systemd)")
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/usr/bin/", f"{BIN}/")
        (tmp_path / unit.name).write_text(re.sub("^Documentation=.*\n", "", text, flags=re.M))

    def run(*words):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=LIMIT,
                              check=False, cwd=tmp_path, env={**os.environ, "SYSTEMD_PAGER": ""})
        return done.returncode, done.stdout + done.stderr
    return run


@pytest.mark.parametrize("unit", ("ddprun-rendezvous.service", "ddprun-rendezvous.socket"))
def test_systemd_finds_nothing_wrong_with_our_units(analyze, unit):
    status, words = analyze("verify", f"./{unit}")
    # What it says about the machine's own units does not concern ours.
    assert (status, [line for line in words.splitlines() if "ddprun" in line]) == (0, []), words


def test_the_service_is_shut_in(analyze):
    status, words = analyze("security", "--offline=true", "--no-pager", "--threshold=15",
                            "./ddprun-rendezvous.service")
    assert status == 0, words[-500:]


def test_the_service_sees_which_boot_it_is():
    """rendezvous/journal/record_age.cpp reads it in /proc/sys, which ProcSubset=pid hides."""
    unit = (UNITS / "ddprun-rendezvous.service").read_text()
    assert not re.search("^ProcSubset=", unit, re.M)


def test_the_unit_starts_the_daemon_with_options_that_it_knows(cluster):
    unit = (UNITS / "ddprun-rendezvous.service").read_text()
    words = re.search(r"^ExecStart=\S+ (.*) \$DDPRUN_RENDEZVOUS_OPTIONS$", unit, re.M)[1].split()
    daemon = Program(cluster, "daemon", [BIN / "ddprun-rendezvous", *words, "--port", "0"])
    daemon.says(r"listening on port \d+")
