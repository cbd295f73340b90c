"""When restarts end: failures at the start, pauses, a budget that is refilled, a node that fails
again and again, a node that leaves."""

import re
import signal

import pytest

from tests.cluster.test_journal import wait_until_kept
from tests.support.cluster import run_shown, wait_for
from tests.support.ports import free_port


def in_words(text):
    return ["--no-python", "sh", "-c", text]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crash_at_the_start_ends_the_job_when_it_comes_again(cluster, workers):
    # The text has another number each time.
    agent = cluster.agent("", "--max-restarts", 3, workers=workers,
                          command=in_words('echo "attempt $TORCHELASTIC_RESTART_COUNT of $$"; '
                                           'echo "no module named digits ($$)" >&2; exit 7'))
    assert agent.wait() == 7
    text = agent.err()
    assert "attempt 1" in agent.out() and "attempt 2" not in agent.out()
    assert re.search(r"next: restart 1 of 3\n", text), text
    assert re.search(r"the run ends: gave up after 1 of 3 restarts: the same failure occurred "
                     r"within 1?\d s of the start, twice in a row; restarting does not help "
                     r"\(use --max-quick-failures=0 to restart anyway\)", text), text
    cluster.nothing_left()


def test_all_nodes_hear_why_it_gave_up(cluster):
    daemon = cluster.daemon()
    agents = cluster.nodes("node-a", "node-b", arguments=["--max-restarts", 9], nnodes=2,
                           endpoint=f"127.0.0.1:{daemon.port}", command=in_words("exit 7"))
    assert [agent.wait() for agent in agents] == [7, 7]
    for agent in agents:
        assert "gave up after 1 of 9 restarts" in agent.err()
        assert "round 3 starts" not in agent.err()
    cluster.nothing_left(but=[daemon])


def test_a_failure_that_comes_by_chance_is_restarted(cluster):
    agent = cluster.agent("", "--max-restarts", 3, workers=2,
                          command=in_words("exit $((TORCHELASTIC_RESTART_COUNT == 0))"))
    assert agent.wait() == 0, agent.err()
    assert "restart 1 of 3" in agent.err()


def test_without_a_limit_of_quick_failures_all_restarts_are_made_with_pauses(cluster):
    agent = cluster.agent("", "--max-restarts", 2, "--max-quick-failures", 0,
                          conf="backoff_max=0.1", command=in_words("exit 7"))
    assert agent.wait() == 7
    text = agent.err()
    assert re.search("next: restart 2 of 2 in 100 ms: the last 2 rounds failed within 10 s", text)
    assert "exited with code 7; all 2 restarts are used" in text
    cluster.nothing_left()


def test_a_pause_is_shown_and_ctrl_c_ends_it(cluster):
    daemon = cluster.daemon()
    agent = cluster.agent("node-a", "--max-restarts", 99, "--max-quick-failures", 0,
                          endpoint=f"127.0.0.1:{daemon.port}", conf="backoff_max=3600",
                          command=in_words("exit $((TORCHELASTIC_RESTART_COUNT + 1))"))
    agent.says(r"restart 4 of 99 in 4 s: the last 4 rounds failed within 10 s of their start")
    wait_for("the pause to be shown", lambda: re.search(
        "the next round waits .* s: the last . rounds failed", run_shown(daemon.port)["why"]))
    agent.kill(signal.SIGINT)
    assert agent.wait() == 130
    assert "this node was in 4 rounds, 4 of which failed:" in agent.err()
    assert "stopped by SIGINT while waiting for the next round after round 4" in agent.err()
    cluster.nothing_left(but=[daemon])


def test_the_budget_is_refilled_and_a_new_daemon_knows(cluster):
    port, state = free_port(), cluster.folder / "kept"
    daemon = cluster.daemon(port, "--state-dir", state)
    agent = cluster.agent("node-a", "--max-restarts", 1, "--restart-window", 0.3,
                          conf="startup_window=0.3",
                          endpoint=f"127.0.0.1:{port}", workers=2)

    def forgiven():
        seen = run_shown(daemon.port)
        return seen["restarts_forgiven"], seen["restarts_used"]

    cluster.started(1, 2)
    cluster.order(0, "exit 3")
    cluster.started(2, 2)
    daemon.says("has run for 300 ms without a failure: --max-restarts starts over, after 1 restart")
    assert forgiven() == (1, 1)
    wait_until_kept(cluster, state, restarts_forgiven=1)
    daemon.kill()
    daemon.wait()
    daemon = cluster.daemon(port, "--state-dir", state, recovery=10)
    wait_for("the round to be kept", lambda: run_shown(daemon.port)["phase"] == "running")
    assert forgiven() == (1, 1)
    cluster.order(0, "exit 4")
    assert {event.restarts for event in cluster.started(3, 2)} == {"2"}
    agent.says(r"next: restart 1 of 1 \(2 in all\)")
    agent.says(r"round 3 starts: .*; restart 1 of 1 \(2 in all\)")
    cluster.finish(2)
    assert agent.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_node_that_fails_first_too_often_is_left_out(cluster):
    daemon = cluster.daemon()
    endpoint = f"127.0.0.1:{daemon.port}"
    options = dict(arguments=["--max-restarts", 9, "--max-node-failures", 2], endpoint=endpoint,
                   nnodes="1:2")
    a, b = cluster.nodes("node-a", "node-b", **options)
    cluster.started(1, 2)
    cluster.order(1, "exit 3")
    cluster.started(2, 2)
    cluster.order(1, "exit 3")
    assert b.wait() == 78
    assert re.search(r"refused this node: run test goes on without this node: workers on node-b "
                     r"were the first to fail twice \(--max-node-failures\); look for", b.err())
    alone = cluster.started(3, 1)
    assert alone[0].node == "node-a" and alone[0].restarts == "2"
    a.says(r"next: restart 2 of 9 in 1 s, without node-b, whose workers were the first to fail "
           r"twice")
    why = run_shown(daemon.port)["why"]
    assert why.count("left out, as workers there were the first to fail") == 1
    again = cluster.agent("node-b", *options["arguments"], endpoint=endpoint, nnodes="1:2")
    assert again.wait() == 78
    cluster.finish(1)
    assert a.wait() == 0
    cluster.nothing_left(but=[daemon])


def test_a_node_that_was_left_out_steps_in_when_it_is_needed(cluster):
    # The daemon lives in it, so it waits; no node can take the place of the other.
    a, b = cluster.nodes("node-a", "node-b", nnodes="1:2", conf="backoff_max=0",
                         arguments=["--max-restarts", 9, "--max-node-failures", 1],
                         endpoint=f"127.0.0.1:{free_port()}")
    cluster.started(1, 2)
    cluster.order(0, "exit 3")
    assert cluster.started(2, 1)[0].node == "node-b"
    a.says(r"it is left out, as its workers were the first to fail once \(--max-node-failures\), "
           r"and steps in again when no other node is left")
    b.kill(signal.SIGTERM)
    assert b.wait() == 0
    assert cluster.started(3, 1)[0].node == "node-a"
    a.says(r"node-a takes part again, though its workers were the first to fail once: without it "
           r"too few nodes are left")
    cluster.finish(1)
    assert a.wait() == 0
    cluster.nothing_left()


SAVES = """
trap 'echo saving >"$DDPRUN_TEST_CONTROL/saving.$RANK"' TERM
: >"$DDPRUN_TEST_CONTROL/ready.$RANK"
while [ ! -e "$DDPRUN_TEST_CONTROL/saving.$RANK" ]; do sleep 0.05; done
while [ ! -e "$DDPRUN_TEST_CONTROL/disk" ]; do sleep 0.05; done
echo saved >"$DDPRUN_TEST_CONTROL/saved.$RANK"
"""


def test_a_node_that_leaves_lets_all_workers_save_for_drain_grace(cluster):
    daemon = cluster.daemon()
    saver = cluster.folder / "saver.sh"
    saver.write_text(SAVES)
    # If the limit were stop_grace, none of them would live long enough to save anything.
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2",
                  conf="stop_grace=0.01,drain_grace=3600", command=["--no-python", "sh", saver])
    a = cluster.agent("node-a", **common)
    a.says("here:.*node-a")
    b = cluster.agent("node-b", **common)
    for rank in (0, 1):
        wait_for(f"rank {rank} to have its trap", (cluster.folder / f"ready.{rank}").exists)
    b.kill(signal.SIGTERM)
    for rank in (0, 1):
        wait_for(f"rank {rank} to save", (cluster.folder / f"saving.{rank}").exists)
    (cluster.folder / "disk").touch()
    assert b.wait() == 0
    for rank in (0, 1):
        assert (cluster.folder / f"saved.{rank}").exists()
    assert a.wait() == 0, "its workers find that all is saved"
    cluster.nothing_left(but=[daemon])
