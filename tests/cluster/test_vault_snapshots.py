"""Snapshots of worker/snapshot in the vault, beside those in a folder: a job goes on from the
newest of both (support/vault_job.cpp, and the training loop of examples/01_snapshot_resume)."""

import os
import re
import signal

import pytest

from tests.cluster.test_vault import homes, no_memory_is_left  # noqa: F401
from tests.cluster.test_vault_nodes import Nodes
from tests.support.cluster import BIN, GO_ON, variables_of, wait_for
from tests.support.held_rank import HeldRank
from tests.support.workload import DIGITS, Workload

EXAMPLE = Workload("snapshot_resume", "01_snapshot_resume", "train.py")
LIMIT = 240


class Job:
    """The command of vault_job, and the orders for it."""

    def __init__(self, folder):
        self.orders = folder / "orders"
        self.orders.mkdir()
        self.command = ["--no-python", BIN / "vault_job", folder / "snapshots", self.orders]

    def order(self, step, word, agents, ranks):
        (self.orders / f"{step}-{word}").touch()
        if word == "end":
            return
        for rank in range(ranks):
            wait_for(f"rank {rank} to save step {step}",
                     lambda rank=rank: any(f"rank {rank} saved {step}\n" in agent.out()
                                           for agent in agents))


def resumed(*agents):
    """What each rank has said of each start, in the order of its starts."""
    said = {}
    for agent in agents:
        for rank, what in re.findall(r"rank (\d+) resumed (.*)", agent.out()):
            said.setdefault(int(rank), []).append(what)
    return said


def workers(cluster):
    """The live workers, by rank."""
    found = {}
    for pid in cluster.marked():
        ranks = [each for each in variables_of(pid) if each.startswith(b"RANK=")]
        if ranks:
            found[int(ranks[0][5:])] = pid
    return found


@pytest.mark.main_path
def test_a_killed_rank_costs_what_came_after_the_vaults_snapshot(cluster, tmp_path):
    job = Job(tmp_path)
    agent = cluster.agent("node", *GO_ON, "--max-restarts", 1, "--vault", tmp_path / "kept",
                          workers=2, command=job.command)
    job.order(1, "folder", [agent], 2)
    job.order(2, "vault", [agent], 2)
    job.order(3, "vault", [agent], 2)
    os.kill(workers(cluster)[1], signal.SIGKILL)
    from_vault = ["0 from nothing", "3 from the vault, with its own"]
    wait_for("both to resume", lambda: resumed(agent) == {0: from_vault, 1: from_vault})
    job.order(4, "end", [agent], 2)
    assert agent.wait() == 0, agent.err()
    names = sorted(each.name for each in (tmp_path / "snapshots").glob("snapshot-*"))
    assert names == ["snapshot-000001-000001"]
    assert "no vault for" not in agent.err() and "cannot save" not in agent.err(), agent.err()


def test_without_a_vault_one_line_says_so_and_the_folder_counts(cluster, tmp_path):
    job = Job(tmp_path)
    agent = cluster.agent("node", *GO_ON, "--max-restarts", 1, workers=2, command=job.command)
    job.order(1, "folder", [agent], 2)
    job.order(2, "vault", [agent], 2)  # saved nowhere
    os.kill(workers(cluster)[0], signal.SIGKILL)
    from_folder = ["0 from nothing", "1 from the folder, with its own"]
    wait_for("both to resume", lambda: resumed(agent) == {0: from_folder, 1: from_folder})
    job.order(3, "end", [agent], 2)
    assert agent.wait() == 0, agent.err()
    line = r"^\[node:0\] no vault for the snapshots in \S+: ranks 0 and 1: no DDPRUN_VAULT"
    assert len(re.findall(line, agent.err(), re.M)) == 2  # of two starts


def test_a_lost_nodes_part_comes_back_from_its_buddy(cluster, make_hosts, tmp_path):
    job = Job(tmp_path)
    nodes = Nodes(cluster, make_hosts(3), nnodes=2)
    nodes.common.update(command=job.command, workers=2)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    job.order(1, "folder", [a, b], 4)
    for step in (2, 3):
        job.order(step, "vault", [a, b], 4)
    for holder, of in (("node-a", 1), ("node-b", 0)):
        copies = cluster.folder / f"disk-{holder}" / f"copy-of-node-{of}"
        wait_for(f"node {of}'s copy on {holder}",
                 lambda copies=copies: [*copies.glob("0*snapshot-000001-000003")])
    nodes.lose(b, 1)
    c = nodes.start("node-c", 2)
    everywhere = "3 from the vault, with its own"
    wait_for("all to resume", lambda: {rank: said[-1] for rank, said in resumed(a, c).items()}
             == dict.fromkeys(range(4), everywhere))
    job.order(4, "vault", [a, c], 4)
    job.order(5, "end", [a, c], 4)
    assert [a.wait(), c.wait()] == [0, 0], a.err() + c.err()


def test_failures_after_the_folders_snapshot_do_not_count_against_the_vaults(cluster, tmp_path):
    """The agent sets aside what two rounds in a row have resumed from, and nothing else."""
    job = Job(tmp_path)
    agent = cluster.agent("node", *GO_ON, "--max-restarts", 9, "--vault", tmp_path / "kept",
                          command=job.command)
    for step, where in ((1, "vault"), (2, "vault"), (3, "folder")):
        job.order(step, where, [agent], 1)
        (job.orders / f"{step}-{where}").unlink()  # once
    said = ["0 from nothing"]

    def fails(resumed_from):
        os.kill(workers(cluster)[0], signal.SIGKILL)
        said.append(resumed_from)
        wait_for("the next start", lambda: resumed(agent) == {0: said})

    for _ in range(3):
        fails("3 from the folder, with its own")
    for name in (tmp_path / "snapshots").glob("snapshot-*"):
        name.rename(tmp_path / name.name)
    fails("2 from the vault, with its own")
    assert "set aside" not in agent.err()
    fails("2 from the vault, with its own")
    fails("1 from the vault, with its own")
    agent.says(r"snapshot-000001-000002 is set aside, in \S+: 2 rounds in a row")
    job.order(2, "end", [agent], 1)
    assert agent.wait() == 0, agent.err()


@pytest.mark.trains
@pytest.mark.skipif(not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")
def test_a_training_loop_goes_on_from_the_vault_and_ends_with_the_same_bits(cluster, tmp_path):
    def start(name, command, *options):
        return cluster.agent(name, *options, workers=2, command=command,
                             environment={"DDPRUN_DIGITS": str(DIGITS), "CUDA_VISIBLE_DEVICES": ""})

    def command(folder):
        return EXAMPLE.command("program", 10, 2, "--vault-steps", 1, "--snapshot-dir",
                               tmp_path / folder)

    whole = start("whole", command("whole"))
    assert whole.wait(LIMIT) == 0, whole.err()
    kept = tmp_path / "kept"

    def newest(folder, pattern="snapshot-*"):
        return max((int(each.parent.name[-6:]) for each in folder.glob(f"{pattern}/manifest.json")),
                   default=0)

    with HeldRank(cluster, 1) as held:
        job = start("job", held.command(*command("killed")[1:]), "--max-restarts", 1, "--vault",
                    kept)

        def in_vault():
            return max((newest(home, "node-0/snapshots-*/snapshot-*") for home in homes(kept)),
                       default=0)

        def signal_all(number):
            for pid in workers(cluster).values():
                os.kill(pid, number)

        def is_newer():
            """Then all are stopped. One that is left would save the step that it has finished."""
            held.read()
            if len(workers(cluster)) < 2:
                return False
            signal_all(signal.SIGSTOP)
            if 0 < newest(tmp_path / "killed") < in_vault():
                return True
            signal_all(signal.SIGCONT)
            return False

        wait_for("the vault to have a newer one than the folder", is_newer, LIMIT)
        step = in_vault()
        signal_all(signal.SIGKILL)
        wait_for("the next round", lambda: "restart 1 of 1" in job.err(), LIMIT)
        held.read()
    assert job.wait(LIMIT) == 0, job.out() + job.err()
    found = re.search(r"resuming from snapshot \S+-(\d+) in the vault at epoch", job.out())
    assert found and int(found[1]) == step, job.out()
    checksum = r"model checksum \w+"
    assert re.findall(checksum, job.out()) == re.findall(checksum, whole.out())
