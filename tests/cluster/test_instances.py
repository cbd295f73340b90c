"""Two instances of one run id: the node that reaches a daemon without a record first must not end a
healthy job, and no worker of the earlier instance may be alive beside the first round of the
next."""

import signal

from tests.support.cluster import LOST_SOON, NONE_IS_LOST, wait_for


def first_start(cluster, node, old):
    """Waits for the node's first worker; the processes `old` must be gone by then."""
    started = wait_for(f"a worker of {node}", lambda: cluster.starts_of(node))[0]
    beside = {int(event.pid) for event in old} & set(cluster.marked())
    assert not beside, f"{beside} live beside the workers of {node}"
    return started


def test_members_that_come_back_after_the_window_are_not_fenced_for_a_newcomer(cluster,
                                                                               make_hosts):
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    endpoint = f"{hosts[0].address}:29400"
    members = [cluster.agent(f"node-{index}", endpoint=endpoint, nnodes=2, host=hosts[index],
                             conf=NONE_IS_LOST) for index in (1, 2)]
    cluster.started(1, 2)
    hosts[0].cut()
    daemon.kill()
    daemon.wait()
    again = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0", recovery=0.2)
    newcomer = cluster.agent("newcomer", endpoint=endpoint, nnodes=2, host=hosts[0],
                             conf=NONE_IS_LOST)
    newcomer.says("waiting for 1 of 2 nodes")
    hosts[0].heal()
    for member in members:
        member.says("again")
    assert newcomer.wait() == 78
    assert "is full" in newcomer.err(), newcomer.err()
    cluster.finish(2)
    assert [member.wait() for member in members] == [0, 0]
    assert len(cluster.events("start")) == 2, "no worker was started anew"
    cluster.nothing_left(but=[again])


def test_an_agent_that_brings_a_daemon_where_one_has_died_takes_the_running_job_in(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    members = cluster.nodes("node-a", "node-b", endpoint=endpoint, nnodes=2, conf=NONE_IS_LOST)
    cluster.started(1, 2)
    daemon.kill()
    daemon.wait()
    newcomer = cluster.agent("newcomer", "--embed-daemon=auto", endpoint=endpoint, nnodes=2,
                             conf=NONE_IS_LOST)
    for member in members:
        member.says("again")
    # The daemon would leave with it, so it waits, although the job is full.
    newcomer.says("waits as a spare")
    cluster.finish(2)
    assert [member.wait() for member in members] == [0, 0]
    assert newcomer.wait() == 0
    assert len(cluster.events("start")) == 2, "no worker was started anew"
    cluster.nothing_left()


def test_no_worker_of_a_node_that_was_cut_off_lives_in_the_run_after_an_operators_stop(
        cluster, make_hosts):
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    endpoint = f"{hosts[0].address}:29400"
    conf = LOST_SOON
    # The leader is cut off, and ends its workers one isolation limit later. When the daemon, which
    # takes longer, calls it lost, it knows from the other node's report that they are gone.
    leader = cluster.agent("leader", endpoint=endpoint, nnodes=2, host=hosts[1], conf=conf)
    leader.says("1 of 2 nodes")
    other = cluster.agent("other", endpoint=endpoint, nnodes=2, host=hosts[2], conf=conf)
    old = cluster.started(1, 2)
    hosts[1].cut()
    other.kill(signal.SIGINT)
    assert other.wait() == 130
    again = cluster.agent("again", endpoint=endpoint, nnodes=1, host=hosts[2], conf=conf)
    first_start(cluster, "again", old)
    hosts[1].heal()
    assert leader.wait() == 130, "it was told of the operator's stop when it came back"
    cluster.order(0, "exit 0")
    assert again.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_node_without_a_daemon_ends_its_workers_before_the_orphan_limit(cluster, make_hosts):
    hosts = make_hosts(3)
    daemon = cluster.daemon(29400, host=hosts[0], bind="0.0.0.0")
    endpoint = f"{hosts[0].address}:29400"
    # A tenth of the limit is left for the workers to end, which must be longer than their agent
    # waits.
    conf = f"{LOST_SOON},last_call_timeout=0.3,orphan_limit=20,stop_grace=0.1"
    alone = cluster.agent("alone", endpoint=endpoint, nnodes="1:2", host=hosts[1], conf=conf)
    old = cluster.started(1, 1)
    waiting = cluster.agent("waiting", endpoint=endpoint, nnodes="1:2", host=hosts[2], conf=conf)
    waiting.says("waits as a spare")
    hosts[1].cut()
    alone.says("there has been no rendezvous daemon at")
    first_start(cluster, "waiting", old)
    cluster.order(0, "exit 0")
    assert waiting.wait() == 0
    hosts[1].heal()
    assert alone.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_hosting_agent_is_started_again_while_another_node_is_cut_off(cluster, make_hosts):
    hosts = make_hosts(2)
    endpoint = f"{hosts[0].address}:29400"
    # Node-1 has time to join as long as the second run waits for the workers of the first.
    conf = "node_timeout=10,last_call_timeout=15"
    host = cluster.agent("node-0", endpoint=endpoint, nnodes="1:2", host=hosts[0], conf=conf)
    host.says("here: node-0")
    other = cluster.agent("node-1", endpoint=endpoint, nnodes="1:2", host=hosts[1], conf=conf)
    old = cluster.started(1, 2)
    hosts[1].cut()
    host.kill()
    host.wait()
    again = cluster.agent("again", endpoint=endpoint, nnodes="1:2", host=hosts[0], conf=conf)
    first_start(cluster, "again", [event for event in old if event.node == "node-1"])
    again.says("waiting until the workers from an earlier start of this run must have ended, "
               "or until node-0 and node-1 are back")
    hosts[1].heal()
    other.says("this node waits as a spare: round 17")
    cluster.order(0, "exit 0")
    assert again.wait() == 0
    assert other.wait() == 0
    cluster.nothing_left()
