"""What people are told while they wait for nodes: for which run, where, for how long, and why."""

import shutil
import signal

from tests.support.cluster import WORKER
from tests.support.ports import free_port

LOST = r"node-b \(127\.0\.0\.1, rank 1\) was lost \d+ s ago: its ddprun process died"
GUARDIANS_WORD = "node_timeout=60,reconnect_grace=60"  # a node is lost by its guardian's word


def test_a_wait_says_which_run_where_and_for_how_long(cluster):
    endpoint = f"127.0.0.1:{free_port()}"
    a = cluster.agent("node-a", endpoint=endpoint, nnodes=3, run="job04")
    a.says(rf"run job04 at {endpoint} \(daemon in this process\): waiting for 2 of 3 nodes, "
           r"10 min left; here: node-a \(1 worker\)")
    b = cluster.agent("node-b", endpoint=endpoint, nnodes=3, run="job04")
    b.says(rf"run job04 at {endpoint}: waiting for 1 of 3 nodes, \d+ min left; here: node-a")
    c = cluster.agent("node-c", endpoint=endpoint, nnodes=3, run="job04")
    cluster.finish(3)
    assert (a.wait(), b.wait(), c.wait()) == (0, 0, 0)


def test_the_last_call_says_how_long_it_is(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2", conf="last_call_timeout=600")
    a = cluster.agent("node-a", **common)
    a.says(r"enough nodes are here \(1 of 1 to 2 nodes\), last call for more nodes: 10 min; "
           r"here: node-a")
    b = cluster.agent("node-b", **common)
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_after_a_loss_the_wait_keeps_its_cause_and_so_does_ctrl_c(cluster):
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2,
                         conf=GUARDIANS_WORD)
    cluster.started(1, 2)
    b.kill()
    a.says(rf"waiting for 1 of 2 nodes, 10 min left; here: node-a \(1 worker\); {LOST}")
    a.kill(signal.SIGINT)
    assert a.wait() == 130
    a.says(rf"stopped by SIGINT while waiting for nodes after round 1; {LOST}")
    cluster.nothing_left(but=[daemon])


def test_a_run_that_gives_up_says_for_what_how_long_and_why(cluster):
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2,
                         conf=f"join_timeout=30,{GUARDIANS_WORD}")
    cluster.started(1, 2)
    b.kill()
    assert a.wait() != 0
    a.says(r"error: exit code \d+: gave up after 30 s \(join_timeout\): waiting for 1 of 2 nodes; "
           rf"here: node-a \(1 worker\); {LOST}")
    cluster.nothing_left(but=[daemon])


def test_ctrl_c_before_the_first_round(cluster):
    daemon = cluster.daemon()
    a = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    a.says("waiting for 1 of 2 nodes")
    a.kill(signal.SIGINT)
    assert a.wait() == 130
    a.says("stopped by SIGINT while waiting, before a round began here")


def test_ctrl_c_while_the_daemon_is_searched_for(cluster):
    """On a node of a Slurm step that opens no daemon, before the first node has opened its own."""
    nodes = "localhost,other"
    a = cluster.agent("node-b", nnodes=2, environment={
        "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": nodes,
        "SLURM_JOB_NODELIST": nodes, "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_PROCID": "1", "SLURM_NODEID": "1",
        "SLURMD_NODENAME": "other"})
    a.says("waiting for the rendezvous daemon of run test on localhost, at port")
    a.kill(signal.SIGINT)
    assert a.wait() == 130
    a.says("error: exit code 130: stopped by SIGINT before a round began here")


def test_ctrl_c_at_one_that_waits_is_told_to_the_others(cluster):
    daemon = cluster.daemon()
    a, b = cluster.nodes("node-a", "node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=3)
    b.kill(signal.SIGINT)
    assert b.wait() == 130
    a.says(r"waiting for 2 of 3 nodes, \d+ (min|s) left; here: node-a \(1 worker\); "
           r"node-b \(127.0.0.1\) left \d+ s ago")
    a.kill(signal.SIGINT)
    assert a.wait() == 130
    cluster.nothing_left(but=[daemon])


def test_another_run_that_gathers_at_the_same_daemon_is_hinted_at(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    a = cluster.agent("node-a", run="job04", **common)
    b = cluster.agent("node-b", run="job05", **common)
    a.says(r"another run waits for nodes at this endpoint: job05 \(1 node\): was the same "
           r"--rdzv-id meant\?")
    b.says(r"another run waits for nodes at this endpoint: job04 \(1 node\): was the same "
           r"--rdzv-id meant\?")
    c = cluster.agent("node-c", run="job04", **common)
    cluster.finish(2)
    assert (a.wait(), c.wait()) == (0, 0)
    b.kill(signal.SIGINT)
    assert b.wait() == 130


def test_different_scripts_of_a_run_without_a_name_are_a_warning_on_both_sides(cluster, tmp_path):
    other = tmp_path / "eval.sh"
    shutil.copy(WORKER, other)
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, run="none")
    a = cluster.agent("node-a", **common)
    a.says("waiting for 1 of 2 nodes")
    b = cluster.agent("node-b", command=["--no-python", other], **common)
    for agent in (a, b):
        agent.says("warning: nodes of this run start different scripts, worker.sh on node-a and "
                   "eval.sh on node-b: if these are two jobs, give each its own --rdzv-id")
    cluster.finish(2)
    assert (a.wait(), b.wait()) == (0, 0)


def test_a_node_that_comes_while_others_run_is_told_how_to_change_that(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2", conf="last_call_timeout=0.2")
    a = cluster.agent("node-a", **common)
    cluster.started(1, 1)
    b = cluster.agent("node-b", **common)
    b.says("this node waits as a spare: round 1 of 1 node .* with --on-join restart")
    cluster.finish(1)
    assert (a.wait(), b.wait()) == (0, 0)


def test_a_node_that_is_refused_is_named_to_the_nodes_that_wait(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, conf=GUARDIANS_WORD)
    a, b = cluster.nodes("node-a", "node-b", **common)
    cluster.started(1, 2)
    b.kill()
    a.says(rf"waiting for 1 of 2 nodes, .*{LOST}")
    odd = cluster.agent("node-x", "--max-restarts", 5, **common)
    assert odd.wait() == 78
    odd.says("node-x has max-restarts 5, the run 0: start all nodes of run test with the same")
    a.says("node-x was refused: it has max-restarts 5, the run 0")
    c = cluster.agent("node-c", **common)
    cluster.started(2, 2)
    a.says(r"node-b was replaced by node-c \(node loss 1 of 10 within an hour\)")
    cluster.finish(2)
    assert (a.wait(), c.wait()) == (0, 0)
