"""How a person's shell, terminal and system affect ddprun: streams, limits, ports, nohup."""

import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from tests.support.busy_ports import at_a_busy_port
from tests.support.cluster import BIN, GO_ON, LIMIT, WORKER, Program, wait_for
from tests.support.ports import free_port


def ddprun(*arguments, shell_before="", shell_after="", **more):
    """Runs ddprun from a line of shell, so that a test reads like what a person would type."""
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; {shell_before} "$@" {shell_after}', "bash",
         BIN / "ddprun", *map(str, arguments)],
        capture_output=True, text=True, timeout=LIMIT, check=False, **more)
    return done


def test_started_with_closed_streams_no_descriptor_takes_their_place(tmp_path):
    report = tmp_path / "report"
    done = ddprun("--standalone", "--nproc-per-node", 2, "--no-python", "/bin/bash", "-c",
                  f'echo out; echo err >&2; for n in 0 1 2; do readlink /proc/$BASHPID/fd/$n; done '
                  f'>{report}.$RANK; readlink /proc/$PPID/fd/{{0,1,2}} >{report}.agent',
                  shell_after="<&- >&- 2>&-")
    assert done.returncode == 0, done
    assert (tmp_path / "report.agent").read_text().split() == ["/dev/null"] * 3
    for rank in range(2):
        assert (tmp_path / f"report.{rank}").read_text().splitlines()[0] == "/dev/null"


def test_a_reader_that_leaves_ends_nothing():
    done = ddprun("--standalone", "--nproc-per-node", 2, "--no-python", "/bin/sh", "-c",
                  "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done",
                  shell_after="| head -1")
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.count("standard output is closed: Broken pipe") == 1, done.stderr


def test_a_full_disk_under_the_output_ends_nothing():
    done = ddprun("--standalone", "--nproc-per-node", 2, "--no-python", "/bin/sh", "-c",
                  "echo hi; echo er >&2", shell_after=">/dev/full")
    assert done.returncode == 0, done
    assert done.stderr.count("No space left on device") == 1, done.stderr
    assert done.stderr.count(" er\n") == 2, done.stderr
    assert ddprun("--standalone", "--no-python", "/bin/echo", "hi",
                  shell_after=">/dev/full 2>&1").returncode == 0


@pytest.mark.parametrize("words", [
    ("manifest", "kubernetes", "--nnodes", 2, "--image", "x", "train.py"), ("doctor", "--json"),
    ("explain", "LOG"), ("--help",), ("--print-completion", "bash"),
], ids=["manifest", "doctor", "explain", "help", "completion"])
def test_an_answer_that_a_full_disk_swallows_is_no_success(tmp_path, words):
    log = tmp_path / "log"
    log.write_text("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
                   "ValueError: no\n")
    words = [log if word == "LOG" else word for word in words]
    assert "cannot be written" not in ddprun(*words).stderr
    done = ddprun(*words, shell_after=">/dev/full")
    assert done.returncode == 1, done
    assert done.stderr.count("ddprun: standard output cannot be written") == 1, done.stderr


def test_workers_inherit_the_standard_input():
    done = ddprun("--standalone", "--no-python", "/bin/cat", input="a word\n")
    assert (done.returncode, done.stdout) == (0, "a word\n"), done


def test_many_workers_raise_the_limit_of_open_files_and_never_see_it(tmp_path):
    all_here = tmp_path / "all"
    done = ddprun("--standalone", "--nproc-per-node", 150, "--no-python", "/bin/bash", "-c",
                  f"ulimit -Sn; [ $RANK = 149 ] && touch {all_here}; "
                  f"until [ -e {all_here} ]; do sleep 0.2; done", shell_before="ulimit -Sn 256;")
    assert done.returncode == 0, done
    limits = [line.split()[-1] for line in done.stdout.splitlines()]
    assert limits == ["256"] * 150, done


def test_the_pipes_of_the_workers_count_towards_the_limit():
    # 2 x 100 connections to the job store would fit, the 3 x 100 descriptors of workers do not.
    done = ddprun("--standalone", "--nproc-per-node", 100, "--no-python", "/bin/true",
                  shell_before="ulimit -n 400;")
    assert done.returncode == 1, done
    assert "too few file descriptors" in done.stderr and "400" in done.stderr, done.stderr


def test_free_ports_of_many_workers_differ():
    for _ in range(3):
        done = ddprun("--standalone", "--nproc-per-node", 100, "--no-python", "/bin/echo",
                      "port={free_port}")
        ports = re.findall(r"port=(\d+)", done.stdout)
        assert len(ports) == len(set(ports)) == 100, done


@pytest.mark.parametrize("store", ["agent", "worker"])
def test_a_fixed_master_port_serves_every_round(cluster, store):
    port = free_port()
    agent = cluster.agent("", "--max-restarts", 3, *GO_ON, "--master-port", port, "--store", store,
                          workers=2)
    clients = []
    for round_number in (1, 2, 3, 4):
        workers = cluster.started(round_number, 2)
        assert {w.master.rsplit(":", 1)[1] for w in workers} == {str(port)}
        if store == "agent":
            # A client that stays connected from one round into the next.
            clients.append(socket.create_connection(("127.0.0.1", port)))
            clients[-1].sendall(b"\0\x10\x40\x85\x3c")
        cluster.order(0, "exit 3" if round_number < 4 else "exit 0")
    cluster.order(1, "exit 0")
    assert agent.wait() == 0
    for client in clients:
        client.close()
    cluster.nothing_left()


def test_no_process_can_take_a_fixed_master_port_between_two_rounds(cluster):
    port = free_port()
    taken, over = [], threading.Event()

    def try_to_take():
        while not over.is_set():
            with socket.socket(socket.AF_INET6) as thief:
                thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    thief.bind(("::", port))
                    thief.listen()
                    taken.append(time.monotonic())
                except OSError:
                    pass

    agent = cluster.agent("", "--max-restarts", 9, *GO_ON, "--master-port", port, workers=1)
    cluster.started(1, 1)
    thread = threading.Thread(target=try_to_take)
    thread.start()
    try:
        for round_number in range(1, 10):
            cluster.started(round_number, 1)
            cluster.order(0, "exit 3")
        cluster.started(10, 1)
    finally:
        over.set()
        thread.join()
    assert not taken
    cluster.finish(1)
    assert agent.wait() == 0


def test_a_master_port_that_is_free_soon_costs_no_restart(cluster):
    agent, _ = at_a_busy_port(lambda port: cluster.agent("", "--master-port", port, workers=1))
    cluster.started(1, 1)
    cluster.finish(1)
    assert agent.wait() == 0


def test_two_at_once_with_one_master_port(cluster):
    port = free_port()
    first = cluster.agent("node-a", "--master-port", port, workers=1)
    cluster.started(1, 1)
    second = ddprun("--standalone", "--master-port", port, "--no-python", "/bin/true")
    assert second.returncode == 1, second
    assert str(port) in second.stderr and "in use" in second.stderr, second.stderr
    cluster.finish(1)
    assert first.wait() == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "[::1]", "localhost", "127.0.0.1",
                                  "[::ffff:127.0.0.1]"])
def test_every_spelling_of_this_host_starts_the_daemon_here(host):
    done = ddprun("--nnodes", 1, "--rdzv-endpoint", f"{host}:{free_port()}", "--rdzv-conf",
                  "join_timeout=120", "--no-python", "/bin/echo", "{master_url}")
    assert done.returncode == 0, done
    assert re.match(r"tcp://(127\.0\.0\.1|\[::1\]):\d+$", done.stdout.strip()), done


def test_nohup_survives_the_hang_up(cluster):
    program = Program(cluster, "node-a",
                      [BIN / "ddprun", "--standalone", "--node-id", "node-a", "--no-python",
                       WORKER],
                      prefix=["nohup"])
    cluster.started(1, 1)
    program.kill(signal.SIGHUP)
    cluster.order(0, "exit 0")
    assert program.wait() == 0
    cluster.nothing_left()


def test_a_stopped_agent_goes_on_where_it_was(cluster):
    # It gets a process group of its own, as from a shell: the kernel discards SIGTSTP in an
    # orphaned group, and the group of this test may be one.
    agent = cluster.agent("", workers=1, conf="node_timeout=3", preexec_fn=os.setpgrp)
    cluster.started(1, 1)
    agent.kill(signal.SIGTSTP)

    def state():
        with open(f"/proc/{agent.pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]

    wait_for("the agent to be stopped", lambda: state() == "T")
    # This is longer than every limit of the run. There is no event to wait for, because all of it
    # stands still.
    with pytest.raises(subprocess.TimeoutExpired):
        agent.process.wait(5)
    agent.kill(signal.SIGCONT)
    cluster.order(0, "exit 0")
    assert agent.wait() == 0
    assert len(cluster.events("start")) == 1, "no worker was started anew"
    cluster.nothing_left()
