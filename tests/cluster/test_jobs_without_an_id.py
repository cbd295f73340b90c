"""Two c10d jobs at one endpoint, one after the other, neither of which has an --rdzv-id. Each node
has a host of its own, and an agent hosts the daemon."""

import re

from tests.support.cluster import LOST_SOON, wait_for

PORT = 29400


def job(cluster, hosts, name):
    """Starts a node on each host; the endpoint is the first host."""
    agents = []
    for index, host in enumerate(hosts):
        agents.append(cluster.agent(
            f"{name}-{index}", "--max-restarts=1", host=host, run=None, nnodes=2,
            endpoint=f"{hosts[0].address}:{PORT}", conf=LOST_SOON,
            command=[*cluster.worker_named(f"train_{name}.sh"), f"--lr=0.{index}"]))
        agents[-1].says(rf"here:.*{name}-{index}")
    return agents


def starts_of(cluster, name):
    return [event for event in cluster.events("start") if event.node[:1] == name]


def is_whole(cluster, name, restarts="0"):
    """Whether each rank of a world of two has started, and only once."""
    wait_for(f"job {name}", lambda: len([each for each in starts_of(cluster, name)
                                         if each.restarts == restarts]) == 2)
    found = [each for each in starts_of(cluster, name) if each.restarts == restarts]
    assert sorted(each.rank for each in found) == ["0", "1"]
    assert {each.world_size for each in found} == {"2"}
    assert {each.node for each in found} == {f"{name}-0", f"{name}-1"}


def end(cluster, agents):
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    cluster.nothing_left()


def test_what_is_left_of_a_job_is_told_that_another_one_has_its_place(cluster, make_hosts):
    hosts = make_hosts(2)
    first = job(cluster, hosts, "a")
    is_whole(cluster, "a")
    first[0].kill()
    first[0].wait()
    second = job(cluster, hosts, "b")
    assert first[1].wait() == 68
    assert "another job (train_b.sh, started " in first[1].err(), first[1].err()
    assert " on b-0) has taken this endpoint" in first[1].err(), first[1].err()
    is_whole(cluster, "b")
    # A failure restarts only its own world, from that world's own budget.
    cluster.order(1, "exit 1")
    is_whole(cluster, "b", restarts="1")
    assert len(starts_of(cluster, "a")) == 2, "no worker of the first job was started again"
    end(cluster, second)


def test_a_dead_job_is_neither_charged_to_the_next_one_nor_waited_for(cluster, make_hosts):
    hosts = make_hosts(2)
    first = job(cluster, hosts, "a")
    is_whole(cluster, "a")
    cluster.order(1, "exit 1")
    is_whole(cluster, "a", restarts="1")
    for agent in first:
        agent.kill()
        agent.wait()
    cluster.nothing_left()
    second = job(cluster, hosts, "b")
    is_whole(cluster, "b")
    assert not any("waiting until the workers" in agent.err() for agent in second), second[0].err()
    cluster.order(0, "exit 1")
    is_whole(cluster, "b", restarts="1")
    end(cluster, second)


def test_a_job_that_is_whole_stays_so_whatever_else_is_started_there(cluster, make_hosts):
    hosts = make_hosts(2)
    first = job(cluster, hosts, "a")
    is_whole(cluster, "a")
    # With the options of the first one, and with others.
    for host, options, why in (
            (hosts[0], ["--max-restarts=1"], "run none is full: 2 nodes are here"),
            (hosts[1], [], "b has max-restarts 0, the run 1: start all nodes")):
        other = cluster.agent("b", *options, host=host, run=None, nnodes=2, conf=LOST_SOON,
                              endpoint=f"{hosts[0].address}:{PORT}",
                              command=cluster.worker_named("train_b.sh"))
        assert other.wait() == 78
        assert why in other.err(), other.err()
        assert re.search(r"; if train_b.sh is a different job from the one here \(train_a.sh, "
                         r"started \S+ on a-0\), .*--rdzv-id", other.err()), other.err()
    assert not starts_of(cluster, "b")
    end(cluster, first)
