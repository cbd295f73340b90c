"""A process that SIGKILL does not end, because it is stuck in the kernel, is named, takes its node
out of the run until it has ended, and does not hold up other nodes for ever."""

from pathlib import Path

import pytest

from tests.support.cluster import NONE_IS_LOST, wait_for
from tests.support.exec_gate import gated_worker
from tests.support.freezer import Freezer

CONF = f"{NONE_IS_LOST},stop_grace=0.2,kill_wait=0.5"


@pytest.fixture
def freezer():
    made = Freezer()
    if made.unavailable:
        pytest.skip(made.unavailable)
    yield made
    made.close()


@pytest.fixture
def gated(cluster, freezer):
    with gated_worker(cluster.folder) as made:
        yield made
        freezer.thaw()  # the kernel releases the gate only after the process that waits there


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def frozen_stray(cluster, freezer, rank):
    """Freezes one stray of this worker, so that SIGKILL cannot end it; returns its pid."""
    path = cluster.folder / "stray"
    cluster.order(rank, f"(setsid sh -c 'echo $$ >{path}; exec sleep 1000' >/dev/null 2>&1 &)")
    pid = int(wait_for("the stray", lambda: path.exists() and path.read_text().strip()))
    wait_for("the stray to have its name", lambda: name_of(pid) == "sleep")
    freezer.freeze(pid)
    wait_for("the stray to stand still", freezer.is_frozen)
    return pid


def two_nodes(cluster, **more):
    daemon = cluster.daemon()
    agents = cluster.nodes("node-a", "node-b",
                           arguments=["--max-restarts", 3, "--max-quick-failures", 0],
                           endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2", conf=CONF, **more)
    return daemon, agents


def test_a_stray_counts_as_a_worker_that_cannot_be_killed(cluster, freezer):
    daemon, (a, b) = two_nodes(cluster)
    cluster.started(1, 2)
    frozen_stray(cluster, freezer, 1)
    cluster.order(0, "exit 3")
    # node-b is asked to stop, and takes no part until the stray is gone.
    b.says("outlived SIGKILL")
    assert [w.node for w in cluster.started(2, 1)] == ["node-a"]
    b.says("1 process that a worker left behind cannot be killed .*: sleep")
    freezer.thaw()
    b.says("waits as a spare")
    cluster.order(0, "exit 3")
    assert [w.node for w in cluster.started(3, 2)] == ["node-a", "node-b"]
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)
    cluster.nothing_left(but=[daemon])


def test_a_stray_of_a_run_that_succeeded_is_named_and_left(cluster, freezer):
    agent = cluster.agent("", "--children-grace=0", workers=1)
    cluster.started(1, 1)
    pid = frozen_stray(cluster, freezer, 0)
    cluster.order(0, "exit 0")
    assert agent.wait() == 0
    assert f"left behind cannot be killed (stuck in the kernel): sleep ({pid})" in agent.err()
    freezer.thaw()  # SIGKILL takes effect then
    cluster.nothing_left()


def test_a_worker_that_hangs_in_exec_and_cannot_be_killed(cluster, freezer, gated):
    program, gate = gated
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2", conf=CONF)
    a = cluster.agent("node-a", "--max-restarts", 3, **common)
    a.says("here:.*node-a")
    b = cluster.agent("node-b", "--max-restarts", 3, command=["--no-python", program], **common)
    wait_for("the exec to hang", gate.waits)
    freezer.freeze(gate.waiting())
    cluster.order(0, "exit 3")
    b.says("1 worker of round 1 outlived SIGKILL")
    assert [w.node for w in cluster.started(2, 1)] == ["node-a"]
    freezer.thaw()
    gate.close()
    cluster.finish(1)
    assert (a.wait(), b.wait()) == (0, 0)
    assert not [e for e in cluster.events("start") if e.node == "node-b"], "it never ran"
    cluster.nothing_left(but=[daemon])
