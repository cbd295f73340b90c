"""An unhealthy node gives up its place, because of --health-check or of what the agent itself
finds, with real agents and a real daemon."""

import signal

from tests.support import small_disk
from tests.support.cluster import run_shown, wait_for


def checks(cluster, name):
    """A command that prints its text and fails as long as the file ill.NAME exists."""
    file = cluster.folder / f"ill.{name}"
    return f"if [ -e {file} ]; then cat {file}; exit 1; fi"


def begin(cluster, daemon, name, *more, nnodes):
    return cluster.agent(name, "--max-restarts", 9, "--health-check", checks(cluster, name),
                         "--health-check-interval", 0.2, "--health-check-timeout", 300, *more,
                         endpoint=f"127.0.0.1:{daemon.port}", nnodes=nnodes, conf="backoff_max=0")


def why(daemon):
    return run_shown(daemon.port)["why"]


def make_ill(cluster, name, text="GPU 3 fell off the bus"):
    (cluster.folder / f"ill.{name}").write_text(text + "\n")


def test_a_node_that_is_ill_gives_its_place_to_a_spare_and_gets_well(cluster):
    daemon = cluster.daemon()
    a = begin(cluster, daemon, "node-a", "--spares", 1, nnodes=2)
    a.says("here: node-a")
    b = begin(cluster, daemon, "node-b", "--spares", 1, nnodes=2)
    cluster.started(1, 2)
    c = begin(cluster, daemon, "node-c", "--spares", 1, nnodes=2)
    c.says("this node waits as a spare")
    make_ill(cluster, "node-b")
    cluster.order(1, "exit 3")
    assert sorted(one.node for one in cluster.started(2, 2)) == ["node-a", "node-c"]
    b.says(r"warning: this node is unhealthy: GPU 3 fell off the bus "
           r"\(--health-check: exit code 1\)")
    b.says(r"this node waits without workers: .*; it sits out until its health check finds nothing")
    a.says(r"next: restart 1 of 9; without node-b: GPU 3 fell off the bus")
    assert "; not taking part: node-b: GPU 3 fell off the bus" in why(daemon)

    (cluster.folder / "ill.node-b").unlink()
    b.says(r"this node is healthy again: its health check passes")
    b.says(r"this node waits as a spare")
    c.kill(signal.SIGKILL)
    assert sorted(one.node for one in cluster.started(3, 2)) == ["node-a", "node-b"]
    cluster.finish(2)
    assert a.wait() == 0 and b.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_node_that_is_ill_and_needed_takes_part(cluster):
    daemon = cluster.daemon()
    a = begin(cluster, daemon, "node-a", nnodes=2)
    a.says("here: node-a")
    b = begin(cluster, daemon, "node-b", nnodes=2)
    cluster.started(1, 2)
    make_ill(cluster, "node-b")
    cluster.order(0, "exit 3")
    cluster.started(2, 2)
    a.says(r"node-b takes part though its health check says: GPU 3 fell off the bus .*; without it "
           r"too few nodes are left")
    cluster.finish(2)
    assert a.wait() == 0 and b.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_node_whose_disk_is_full_gives_its_place_to_a_spare_and_gets_well(cluster):
    """No check was requested; what is found then counts from the next failure on."""
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, conf="backoff_max=0")
    words = ("--max-restarts", 9, "--spares", 1, "--health-check-interval", 0.2)
    with small_disk.mounted(cluster.folder / "small") as disk:
        a = cluster.agent("node-a", *words, **common)
        a.says("here: node-a")
        b = cluster.agent("node-b", *words, environment={"TMPDIR": str(disk), "PET_CHECK": "auto"},
                          **common)
        cluster.started(1, 2)
        c = cluster.agent("node-c", *words, **common)
        c.says("this node waits as a spare")
        small_disk.fill(disk)
        cluster.order(0, "exit 3")
        b.says(rf"warning: this node is unhealthy: disk: {disk}: 0 KiB free")
        cluster.started(2, 2)
        cluster.order(0, "exit 4")
        assert sorted(one.node for one in cluster.started(3, 2)) == ["node-a", "node-c"]
        a.says(rf"without node-b: disk: {disk}: 0 KiB free")

        (disk / "filler").unlink()
        b.says(r"this node is healthy again: its health check passes")
        b.says(r"this node waits as a spare")
        cluster.finish(2)
        assert a.wait() == 0 and c.wait() == 0 and b.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_after_an_error_of_cuda_the_next_round_waits_for_the_look_at_the_node(cluster):
    """No check was requested; what is found then counts for this restart."""
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, conf="backoff_max=0")
    words = ("--max-restarts", 9, "--spares", 1)
    with small_disk.mounted(cluster.folder / "small") as disk:
        a = cluster.agent("node-a", *words, **common)
        a.says("here: node-a")
        b = cluster.agent("node-b", *words, environment={"TMPDIR": str(disk), "PET_CHECK": "auto"},
                          **common)
        cluster.started(1, 2)
        c = cluster.agent("node-c", *words, **common)
        c.says("this node waits as a spare")
        small_disk.fill(disk)
        cluster.order(1, "echo 'RuntimeError: CUDA error: unspecified launch failure' >&2; exit 3")
        assert sorted(one.node for one in cluster.started(2, 2)) == ["node-a", "node-c"]
        a.says(rf"next: restart 1 of 9; without node-b: disk: {disk}: 0 KiB free")
        cluster.finish(2)
        assert a.wait() == 0 and c.wait() == 0 and b.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_check_that_hangs_counts_as_one_that_fails(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    common = dict(endpoint=endpoint, nnodes="1:2", conf="backoff_max=0")
    a = cluster.agent("node-a", "--max-restarts", 9, **common)
    a.says("here: node-a")
    b = cluster.agent("node-b", "--max-restarts", 9, "--health-check", "sleep 1000 & sleep 1000",
                      "--health-check-timeout", 0.2, **common)
    cluster.started(1, 2)
    cluster.order(0, "exit 3")
    assert [one.node for one in cluster.started(2, 1)] == ["node-a"]
    b.says(r"this node is unhealthy: --health-check: it had not ended after 200 ms")
    b.kill(signal.SIGTERM)
    b.wait()
    cluster.finish(1)
    assert a.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_check_dies_with_its_agent(cluster):
    agent = cluster.agent("", "--max-restarts", 9, "--health-check-timeout", 300, "--health-check",
                          f"touch {cluster.folder}/looks; sleep 1000 & sleep 1000")
    cluster.started(1, 1)
    cluster.order(0, "exit 3")
    wait_for("the check to run", (cluster.folder / "looks").exists)
    agent.kill(signal.SIGKILL)
    cluster.nothing_left()


def test_a_signal_does_not_wait_for_a_check(cluster):
    agent = cluster.agent("", "--max-restarts", 9, "--health-check-timeout", 300, "--health-check",
                          f"touch {cluster.folder}/looks; sleep 1000")
    cluster.started(1, 1)
    cluster.order(0, "exit 3")
    wait_for("the check to run", (cluster.folder / "looks").exists)
    agent.kill(signal.SIGINT)
    assert agent.wait() == 130
    cluster.nothing_left()
