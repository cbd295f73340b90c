"""Two jobs at one endpoint, one after the other, neither of which has an --rdzv-id."""

from pathlib import Path

import pytest

from tests.support.cluster import GO_ON, wait_for
from tests.support.ports import free_port

pytestmark = pytest.mark.main_path


def static_node(cluster, name, rank, port, command):
    return cluster.agent(name, f"--node-rank={rank}", "--master-addr=127.0.0.1",
                         f"--master-port={port}", nnodes=2, run="none", command=command)


def alone(cluster, name, port, command):
    return cluster.agent(name, "--max-restarts=2", *GO_ON, endpoint=f"127.0.0.1:{port}",
                         run="none", command=command)


def killed_in_its_second_round(cluster, port):
    """One restart of job A is used; then all its processes die at once."""
    first = alone(cluster, "a", port, cluster.worker_named("train_a.sh"))
    cluster.started(1, 1)
    cluster.order(0, "exit 1")
    wait_for("the restart", lambda: len(cluster.starts_of("a")) == 2)
    assert cluster.starts_of("a")[1].restarts == "1"
    first.kill()
    first.wait()
    cluster.nothing_left()


def test_what_is_left_of_a_job_is_told_that_another_one_has_its_place(cluster):
    port = free_port()
    first = [static_node(cluster, f"a-{rank}", rank, port, cluster.worker_named("train_a.sh"))
             for rank in (0, 1)]
    cluster.started(1, 2)
    first[0].kill()
    first[0].wait()
    # The second node has other arguments, but it is the same job.
    program = cluster.worker_named("train_b.sh")
    second = [static_node(cluster, f"b-{rank}", rank, port, [*program, f"--lr=0.{rank}"])
              for rank in (0, 1)]
    assert first[1].wait() == 68
    assert "another job (train_b.sh, started " in first[1].err(), first[1].err()
    assert " on b-0) has taken this endpoint" in first[1].err(), first[1].err()
    wait_for("the second job's workers",
             lambda: cluster.starts_of("b-0") and cluster.starts_of("b-1"))
    worlds = {(e.node, e.rank, e.world_size, e.restarts) for e in cluster.events("start")
              if e.node.startswith("b-")}
    assert worlds == {("b-0", "0", "2", "0"), ("b-1", "1", "2", "0")}
    cluster.finish(2)
    assert [each.wait() for each in second] == [0, 0]
    cluster.nothing_left()


def test_a_dead_job_is_not_charged_to_the_next_script(cluster):
    port = free_port()
    killed_in_its_second_round(cluster, port)
    second = alone(cluster, "b", port, cluster.worker_named("train_b.sh"))
    wait_for("the second job", lambda: cluster.starts_of("b"))
    assert [event.restarts for event in cluster.starts_of("b")] == ["0"]
    assert "waiting until the workers" not in second.err(), second.err()
    for used in (1, 2):
        cluster.order(0, "exit 1")
        wait_for(f"restart {used}", lambda used=used: len(cluster.starts_of("b")) == used + 1)
    cluster.finish(1)
    assert second.wait() == 0


def test_the_same_script_goes_on_with_its_record(cluster):
    port = free_port()
    killed_in_its_second_round(cluster, port)
    again = alone(cluster, "a", port, cluster.worker_named("train_a.sh"))
    wait_for("the same job", lambda: len(cluster.starts_of("a")) == 3)
    assert cluster.starts_of("a")[2].restarts == "1"
    cluster.finish(1)
    assert again.wait() == 0


def test_a_run_that_ends_well_leaves_no_folder(cluster):
    port = free_port()
    only = alone(cluster, "a", port, cluster.worker_named("train_a.sh"))
    cluster.started(1, 1)
    folders = Path(cluster.folder / "state" / "ddprun")
    assert [path.name.endswith(f"-{port}") for path in folders.iterdir()] == [True]
    cluster.finish(1)
    assert only.wait() == 0
    assert list(folders.iterdir()) == []
