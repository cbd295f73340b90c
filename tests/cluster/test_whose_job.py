"""Two jobs at one endpoint, one after the other, neither of which has an --rdzv-id."""

import shutil
from pathlib import Path

import pytest

from tests.support.cluster import GO_ON, WORKER, wait_for
from tests.support.ports import free_port

pytestmark = pytest.mark.main_path


def script(cluster, name):
    """A worker with a name of its own."""
    path = cluster.folder / name
    if not path.exists():
        shutil.copy(WORKER, path)
    return ["--no-python", path]


def static_node(cluster, name, rank, port, command):
    return cluster.agent(name, f"--node-rank={rank}", "--master-addr=127.0.0.1",
                         f"--master-port={port}", nnodes=2, run="none", command=command)


def alone(cluster, name, port, command):
    return cluster.agent(name, "--max-restarts=2", *GO_ON, endpoint=f"127.0.0.1:{port}",
                         run="none", command=command)


def starts_of(cluster, node):
    return [event for event in cluster.events("start") if event.node == node]


def killed_in_its_second_round(cluster, port):
    """One restart of job A is used; then all its processes die at once."""
    first = alone(cluster, "a", port, script(cluster, "train_a.sh"))
    cluster.started(1, 1)
    cluster.order(0, "exit 1")
    wait_for("the restart", lambda: len(starts_of(cluster, "a")) == 2)
    assert starts_of(cluster, "a")[1].restarts == "1"
    first.kill()
    first.wait()
    cluster.nothing_left()


def test_what_is_left_of_a_job_is_told_that_another_one_has_its_place(cluster):
    port = free_port()
    first = [static_node(cluster, f"a-{rank}", rank, port, script(cluster, "train_a.sh"))
             for rank in (0, 1)]
    cluster.started(1, 2)
    first[0].kill()
    first[0].wait()
    # The second node has other arguments, but it is the same job.
    second = [static_node(cluster, f"b-{rank}", rank, port,
                          [*script(cluster, "train_b.sh"), f"--lr=0.{rank}"]) for rank in (0, 1)]
    assert first[1].wait() == 68
    assert "another job (train_b.sh, started " in first[1].err(), first[1].err()
    assert " on b-0) has taken this endpoint" in first[1].err(), first[1].err()
    wait_for("the second job's workers",
             lambda: starts_of(cluster, "b-0") and starts_of(cluster, "b-1"))
    worlds = {(e.node, e.rank, e.world_size, e.restarts) for e in cluster.events("start")
              if e.node.startswith("b-")}
    assert worlds == {("b-0", "0", "2", "0"), ("b-1", "1", "2", "0")}
    cluster.finish(2)
    assert [each.wait() for each in second] == [0, 0]
    cluster.nothing_left()


def test_a_dead_job_is_not_charged_to_the_next_script(cluster):
    port = free_port()
    killed_in_its_second_round(cluster, port)
    second = alone(cluster, "b", port, script(cluster, "train_b.sh"))
    wait_for("the second job", lambda: starts_of(cluster, "b"))
    assert [event.restarts for event in starts_of(cluster, "b")] == ["0"]
    assert "waiting until the workers" not in second.err(), second.err()
    for used in (1, 2):
        cluster.order(0, "exit 1")
        wait_for(f"restart {used}", lambda used=used: len(starts_of(cluster, "b")) == used + 1)
    cluster.finish(1)
    assert second.wait() == 0


def test_the_same_script_goes_on_with_its_record(cluster):
    port = free_port()
    killed_in_its_second_round(cluster, port)
    again = alone(cluster, "a", port, script(cluster, "train_a.sh"))
    wait_for("the same job", lambda: len(starts_of(cluster, "a")) == 3)
    assert starts_of(cluster, "a")[2].restarts == "1"
    cluster.finish(1)
    assert again.wait() == 0


def test_a_run_that_ends_well_leaves_no_folder(cluster):
    port = free_port()
    only = alone(cluster, "a", port, script(cluster, "train_a.sh"))
    cluster.started(1, 1)
    folders = Path(cluster.folder / "state" / "ddprun")
    assert [path.name.endswith(f"-{port}") for path in folders.iterdir()] == [True]
    cluster.finish(1)
    assert only.wait() == 0
    assert list(folders.iterdir()) == []
