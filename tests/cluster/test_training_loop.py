"""The training loop of the worker library, under the launcher: examples/01_snapshot_resume, whose
ranks print which images each finished step took."""

import json
import os
import re
import signal

import pytest

from tests.support.cluster import wait_for
from tests.support.held_rank import HeldRank
from tests.support.workload import DIGITS, Workload

EXAMPLE = Workload("snapshot_resume", "01_snapshot_resume", "train.py")
LIMIT = 240
RANKS, EPOCHS, STEPS = 4, 10, 60  # six steps an epoch
NEVER = 1000  # epochs between two snapshots

pytestmark = [pytest.mark.trains, pytest.mark.skipif(
    not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")]


def steps_of(rank, text):
    told = rf"\[rank {rank}\] epoch \d+ step (\d+) \| samples .*\n"
    return [int(step) for step in re.findall(told, text)]


def result(text):
    return re.search(r"model checksum \w+", text)[0], re.search(r"accuracy .*", text)[0]


def start(cluster, command, *options, name="job", **more):
    return cluster.agent(name, *options, workers=RANKS, command=command, **more,
                         environment={"DDPRUN_DIGITS": str(DIGITS), "CUDA_VISIBLE_DEVICES": ""})


@pytest.mark.parametrize("dead, survivors", [
    (0, "on"), (3, "off"),
    *(pytest.param(*values, marks=pytest.mark.slow) for values in ((0, "off"), (3, "on")))])
def test_a_killed_rank_costs_no_step(cluster, tmp_path, dead, survivors):
    given = [EPOCHS, NEVER, "--tell-samples", "--snapshot-dir"]
    whole = start(cluster, EXAMPLE.command("program", *given, tmp_path / "whole"), name="whole")
    assert whole.wait(LIMIT) == 0, whole.err()

    with HeldRank(cluster, dead) as held:
        command = held.command(*EXAMPLE.command("program", *given, tmp_path / "killed")[1:])
        # Survivors have long to leave their round, because the machine may be slow.
        killed = start(cluster, command, "--max-restarts", 1, "--survivors", survivors,
                       conf="stop_grace=120")
        held.run_until(3, LIMIT)
        os.kill(held.pid(), signal.SIGKILL)
        wait_for("the next round", lambda: "restart 1 of 1" in killed.err(), LIMIT)
        held.read()
    assert killed.wait(LIMIT) == 0, killed.out() + killed.err()
    lived_on = f"{RANKS - 1} of {RANKS} workers of this node lived on from the round before"
    assert (lived_on in killed.err()) == (survivors == "on"), killed.out() + killed.err()
    assert result(killed.out()) == result(whole.out())

    # There was no other snapshot from which it could have resumed.
    said = killed.out() + killed.err()
    # Ranks that communicate with none of the dead ones may be too late to be among them.
    assert re.search(r"was saved by the ranks that are left \(ranks? \d", said)
    resumed = int(re.search(r"resuming from snapshot \S+-(\d+) at epoch", said)[1])
    # Each step is printed once: none is lost, and none is made twice. A rank that communicated with
    # a dead one may have taken part in the last step without finishing it.
    for rank in set(range(RANKS)) - {dead}:
        told = steps_of(rank, killed.out())
        assert len(told) == len(set(told)), rank
        assert set(range(1, STEPS + 1)) - set(told) <= {resumed}, rank
    before = steps_of(dead, held.text)
    assert before == list(range(1, len(before) + 1)) and resumed - len(before) in (0, 1)
    assert steps_of(dead, killed.out()) == list(range(resumed + 1, STEPS + 1))


def test_a_rank_that_hangs_is_named_with_the_step_that_the_loop_has_said(cluster, tmp_path):
    report = tmp_path / "report"
    with HeldRank(cluster, 2) as held:
        command = held.command(*EXAMPLE.command("program", EPOCHS, NEVER, "--snapshot-dir",
                                                tmp_path / "snapshots")[1:])
        job = start(cluster, command, "--max-restarts", 1, "--hang-timeout", 3, "--report", report)
        held.run_until(2, LIMIT)
        os.kill(held.pid(), signal.SIGSTOP)
        wait_for("the next round", lambda: "restart 1 of 1" in job.err(), LIMIT)
    assert job.wait(LIMIT) == 0, job.out() + job.err()
    rounds = [json.loads(line) for line in report.read_text().splitlines()]
    cause = rounds[0]["root_cause"]
    assert (cause["kind"], cause["rank"]) == ("hung", 2)
    found = re.search(r"rank 2 had been stopped \(state T\) (in|after) step (\d+)",
                      cause["sentence"])
    assert found, cause
    assert 2 * 6 <= int(found[2]) <= STEPS
    assert re.fullmatch(rf"steps? {found[2]}( to \d+)?|steps \d+ to {found[2]}",
                        rounds[0]["reached"])
    assert rounds[1]["reached"] == f"step {STEPS}"


def test_sigusr1_saves_and_is_the_end(cluster, tmp_path):
    """A batch system announces in this way that the job's time is nearly over, so nothing is
    started again."""
    with HeldRank(cluster, 1) as held:
        command = held.command(*EXAMPLE.command("program", EPOCHS, NEVER, "--snapshot-dir",
                                                tmp_path / "snapshots")[1:])
        job = start(cluster, command, "--max-restarts", 1)
        held.run_until(2, LIMIT)
        job.kill(signal.SIGUSR1)
        held.run_on(job, LIMIT)
    assert job.wait(LIMIT) == 0, job.err()
    assert "snapshot saved at" in job.out() and "model checksum" not in job.out()
    assert "restart 1" not in job.err()
