"""What is reported about a round that ended while its daemon was gone: the next daemon learns it
from the nodes that come back, and from the guardian of the one that does not."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.support.cluster import LIMIT, LOST_SOON, wait_for
from tests.support.ports import free_port

LOST_PEER = ("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] "
             "Connection closed by peer [127.0.0.1]:4321")


def two_nodes(cluster, conf):
    """The daemon is in the first node's agent; each agent writes its reports to a file of its
    own."""
    endpoint = f"127.0.0.1:{free_port()}"
    agents = []
    for name in ("node-a", "node-b"):
        report = ["--report", cluster.folder / f"{name}.jsonl"]
        agents += cluster.nodes(name, endpoint=endpoint, nnodes="1:2", arguments=report, workers=2,
                                conf=f"{conf},last_call_timeout=20,linger=0.2")
    cluster.started(1, 4)
    return agents


def report_of(cluster, name):
    return json.loads((cluster.folder / f"{name}.jsonl").read_text().splitlines()[0])


@pytest.mark.parametrize("who_fails", ["a survivor", "nobody else"])
def test_the_agent_that_held_the_daemon_is_the_cause_by_its_guardians_word(cluster, who_fails):
    holder, other = two_nodes(cluster, f"node_timeout={2 * LIMIT}")
    holder.kill()
    holder.wait()
    if who_fails == "a survivor":
        cluster.order(2, f"echo '{LOST_PEER}' >&2; exit 1")
    box = other.says(r"warning: round 1 failed (.*); the root cause:\n((  \| .*\n)+)")
    assert re.fullmatch(r"[\d.]+ (ms|s|min) after its start", box[1])
    lines = box[2].splitlines()
    assert lines[0] == ("  | node-a was lost: its ddprun process died, and its guardian killed the "
                        "workers")
    assert "ranks 0 and 1 were lost with their node" in box[2]
    assert ("rank 2 ended because of it" in box[2]) == (who_fails == "a survivor")
    # It is not round 2, because the next daemon does not know which numbers were given out.
    wait_for("the next round", lambda: len([event for event in cluster.events("start")
                                            if event.round != "1"]) == 2)
    cluster.finish(2)
    assert other.wait() == 0
    report = report_of(cluster, "node-b")
    assert report["lasted_s"] > 0
    assert report["world_size"] == 4
    assert report["root_cause"]["node"] == "node-a"
    assert "round 1, not started" not in other.err()
    cluster.nothing_left()


def test_a_node_that_never_comes_back_to_a_new_daemon_is_the_cause(cluster):
    """The whole node is gone at once, as after a loss of power, and its guardian, too, so nothing
    can report how."""
    holder, other = two_nodes(cluster, LOST_SOON)
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
    holder.kill(signal.SIGSTOP)  # it starts no new guardian
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    holder.kill()
    holder.wait()
    box = other.says(r"warning: round 1 failed (.*); the root cause:\n((  \| .*\n)+)")
    lines = box[2].splitlines()
    assert lines[0] == ("  | node-a was lost: it has not come back since the rendezvous daemon was "
                        "restarted")
    assert "ranks 2 and 3 were stopped" in box[2]
    wait_for("the next round", lambda: len([event for event in cluster.events("start")
                                            if event.round != "1"]) == 2)
    cluster.finish(2)
    assert other.wait() == 0
    report = report_of(cluster, "node-b")
    assert report["root_cause"]["node"] == "node-a"
    assert report["root_cause"]["kind"] == "node_lost"
    cluster.nothing_left()
