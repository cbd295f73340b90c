"""Descriptors and ports: as many after a round as before, none after the run. And processes."""

import os
import socket
import subprocess

import pytest

from tests.support.cluster import GO_ON, GUARDIAN, LEFT_BEHIND, Cluster, wait_for
from tests.support.freezer import Freezer


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def listening_ports(pid):
    """TCP ports on which the process listens."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            link = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if link.startswith("socket:["):
            inodes.add(link[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


def test_rounds_leave_no_descriptor_and_no_port(cluster):
    daemon = cluster.daemon()
    idle = descriptors(daemon.pid)
    agents = cluster.nodes("node-a", "node-b", arguments=["--max-restarts", 3, *GO_ON], nnodes=2,
                           endpoint=f"127.0.0.1:{daemon.port}", workers=2)
    cluster.started(1, 4)
    # An agent holds more descriptors until it knows that a worker's program was executed.
    daemon.says("round 1: all 4 workers are started")
    first = [descriptors(agent.pid) for agent in agents]
    ports = [listening_ports(agent.pid) for agent in agents]
    assert [len(each) for each in ports] == [1, 0], "the leader alone listens, on one port"
    for round_number in (2, 3, 4):
        cluster.order(1, "exit 3")
        cluster.started(round_number, 4)
    # The connections of the last round stay for a moment.
    wait_for("the agents to hold what they held in the first round",
             lambda: all(descriptors(agent.pid) <= held for agent, held in zip(agents, first)))
    assert [len(listening_ports(agent.pid)) for agent in agents] == [1, 0]
    cluster.finish(4)
    assert [agent.wait() for agent in agents] == [0, 0]
    wait_for("the daemon to hold what it held before",
             lambda: descriptors(daemon.pid) == idle)
    for port in set().union(*ports):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    cluster.nothing_left(but=[daemon])



def test_a_guardian_may_end_after_its_test_and_nothing_else(tmp_path, monkeypatch):
    cluster = Cluster(tmp_path)

    def end_of(*looks):
        left = list(looks)
        monkeypatch.setattr(cluster, "marked", lambda: left.pop(0) if len(left) > 1 else left[0])
        return cluster.left_behind()

    guardian, other = {7: f"{GUARDIAN} "}, {8: "sleep 1000 "}
    assert not end_of({})
    assert not end_of(guardian, guardian, {})
    assert end_of(guardian | other, guardian, {}) == (
        "processes ended only after their test: {8: 'sleep 1000 '}")
    monkeypatch.setattr("tests.support.cluster.LIMIT", 0)
    assert end_of(guardian).startswith(LEFT_BEHIND)


def test_what_was_killed_may_have_its_turn_after_its_test(cluster, monkeypatch):
    freezer = Freezer()
    if freezer.unavailable:
        pytest.skip(freezer.unavailable)
    own = {**os.environ, "DDPRUN_TEST_MARK": cluster.mark}
    killed, late = (subprocess.Popen(["sleep", "1000"], env=own) for _ in range(2))

    def wait_for_the_end(what, condition):
        late.kill()
        freezer.thaw()
        wait_for(what, condition)

    try:
        wait_for("both to have their environment", lambda: len(cluster.marked()) == 2)
        freezer.freeze(killed.pid)
        wait_for("one to stand still", freezer.is_frozen)
        killed.kill()
        monkeypatch.setattr("tests.support.cluster.wait_for", wait_for_the_end)
        assert cluster.left_behind() == (
            f"processes ended only after their test: {{{late.pid}: 'sleep 1000 '}}")
    finally:
        freezer.close()
        for child in (killed, late):
            child.kill()
            child.wait()
