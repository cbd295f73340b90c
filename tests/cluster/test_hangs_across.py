"""Hangs of nodes with one rank each. None of them can know from its own rank which one the others
wait for, but together they can."""

import json
import os
import re
import sys

import pytest

from tests.cluster.test_hangs import SLEEPS, of_hangs, told_to
from tests.support.cluster import run_shown, wait_for
from tests.support.standing_script import line_of, write


def nodes(cluster, count, command, *options, blind=()):
    """Nodes of one rank each, in this order; the workers of `blind` ones are not Python."""
    daemon = cluster.daemon()
    agents = []
    for name in "abc"[:count]:
        program = name in blind
        agents.append(cluster.agent(
            name, "--max-restarts", 1, "--max-quick-failures", 0, *options,
            *(["--no-python"] if program else []), workers=1, nnodes=str(count),
            endpoint=f"127.0.0.1:{daemon.port}",
            command=["sh", "-c", 'read word < "$DDPRUN_TEST_CONTROL/go"'] if program else [command],
            environment={"PYTHON_EXEC": sys.executable}))
        agents[-1].says(rf"here:.*{name}" if name != "abc"[count - 1] else "round 1 starts")
    return daemon, agents


def one_rank_stands(rank):
    return SLEEPS.replace("rank == 2", f"rank == {rank}")


@pytest.mark.main_path
def test_two_nodes_of_one_rank_find_the_hung_rank_together(cluster, tmp_path):
    script = write(tmp_path, one_rank_stands(1))
    report = tmp_path / "report"
    _, agents = nodes(cluster, 2, script, "--hang-timeout", 3, "--report", report)
    for agent in agents:
        assert agent.wait() == 0, agent.err()
        assert "attempt 1 has ended well" in agent.out()
    sentence = (f"rank 1 stood in forward (train.py:{line_of(script, 'sleep(3600)')}) while rank 0 "
                f"waited in all_reduce, <module> (train.py:{line_of(script, 'all_reduce(step')})")
    rounds = [json.loads(line) for line in report.read_text().splitlines()]
    failed = [one for one in rounds if one["outcome"] == "failed"]
    assert {one["reported_by"] for one in failed} == {"a", "b"}
    for one in failed:
        cause = one["root_cause"]
        assert (cause["kind"], cause["node"], cause["rank"]) == ("hung", "b", 1)
        assert cause["sentence"].startswith(
            "b: rank 1 (local rank 0) hung: no rank of this run has moved for ")
        assert cause["sentence"].endswith(sentence)
    assert "rank 1 hangs and is ended: " in agents[1].err()
    assert "rank 0 hangs" not in agents[0].err()
    cluster.nothing_left(but=cluster.programs[:1])  # the daemon


def test_by_default_the_rank_is_named_on_its_node_and_on_the_leaders(cluster, tmp_path):
    script = write(tmp_path, """
        if rank == 1 and step == 1:
            while not (folder / "go").exists():
                time.sleep(0.1)
            while not (folder / "on").exists():
                sum(range(10000))
    """)
    hook, events = told_to(tmp_path / "events")
    daemon, agents = nodes(cluster, 3, script, *hook)
    named = (r"no rank of this run has moved for .*: rank 1 stood in forward \(train.py:[0-9]+\) "
             "while ranks 0 and 2 waited in all_reduce, ")
    agents[1].says(named + ".*; --hang-timeout SECONDS ends a rank that hangs")
    agents[0].says("rank 1 hangs: " + named)
    wait_for("both nodes' events", lambda: len(of_hangs(events())) == 2)
    told = of_hangs(events())
    assert sorted((one["event"], one["node"], one["leads"], one["rank"]) for one in told) == [
        ("hang", "a", True, 1), ("hang", "b", False, 1)]
    for one in told:
        assert re.match("rank 1 hangs: " + named, one["text"])
    stall = run_shown(daemon.port)["stall"]
    assert stall["rank"] == 1 and re.match("rank 1 hangs: " + named, stall["text"])
    (cluster.folder / "go").touch()
    wait_for("b to say that it is over", lambda: any(
        one["event"] == "hang_over" and one["node"] == "b" for one in events()))
    (cluster.folder / "on").touch()
    for agent in agents:
        assert agent.wait() == 0, agent.err()
        assert "attempt 0 has ended well" in agent.out()
    assert "hangs" not in agents[2].err()
    cluster.nothing_left(but=cluster.programs[:1])


def test_if_one_node_cannot_see_its_rank_no_worker_is_ended(cluster, tmp_path):
    """Rank 1 may be waiting for the rank of node c, which cannot be seen."""
    script = write(tmp_path, """
        if rank == 1 and step == 1:
            while not (folder / "on").exists():
                time.sleep(0.1)
    """)
    os.mkfifo(cluster.folder / "go")
    for step in range(2):  # rank 2 takes part in no collective
        (cluster.folder / f"step.0.{step}.2").touch()
    daemon, agents = nodes(cluster, 3, script, "--hang-timeout", 2, blind="c")
    daemon.says("no rank of this run has moved for .*: rank 1 stood in forward .*, rank 2 gave "
                "no stack .* while rank 0 waited in all_reduce, .*; cannot tell which rank hangs")
    (cluster.folder / "on").touch()
    (cluster.folder / "go").write_text("on\n")
    for agent in agents:
        assert agent.wait() == 0, agent.err()
        assert "hung" not in agent.err() and "hangs" not in agent.err()
    cluster.nothing_left(but=cluster.programs[:1])
