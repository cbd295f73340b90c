"""Vaults of several nodes: all resume from one entry, and what a lost node had is restored from the
copy on another. Hosts are network namespaces, each with a disk of its own."""

import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from tests.cluster.test_vault import (SLOW, homes, kept, no_memory_is_left, save,  # noqa: F401
                                      seen)
from tests.support.cluster import GO_ON, LOST_SOON, wait_for
from tests.support.ports import free_port
from tests.support.relay import Relay
from tests.support.small_disk import fill


class Nodes:
    """One agent on each host, with a --vault folder of its own."""

    def __init__(self, cluster, hosts, *options, nnodes, conf=LOST_SOON, daemon_host=0):
        self.cluster, self.hosts, self.options = cluster, hosts, options
        where = hosts[daemon_host]
        self.daemon = cluster.daemon(29400, host=where, bind="0.0.0.0")
        self.common = dict(endpoint=f"{where.address}:29400", nnodes=nnodes, conf=conf)
        self.agents = []

    def start(self, name, host, *more):
        disk = self.cluster.folder / f"disk-{name}"
        agent = self.cluster.agent(name, "--max-restarts", 9, *GO_ON[:2], "--vault", disk,
                                   "--log-level", "debug", *self.options, *more,
                                   host=self.hosts[host], **self.common)
        self.agents.append(agent)
        return agent

    def lose(self, agent, host):
        """Loses the whole node: SIGKILL to agent, guardian and workers, and its memory and disk are
        removed."""
        disk = self.cluster.folder / f"disk-{agent.name}"
        memory = homes(disk)
        listed = subprocess.run(["ip", "netns", "pids", self.hosts[host].name], check=True,
                                capture_output=True, text=True)
        for pid in map(int, listed.stdout.split()):
            os.kill(pid, signal.SIGKILL)
        agent.wait()
        for folder in (disk, *memory):
            shutil.rmtree(folder)


def copies(cluster, name, of):
    folder = cluster.folder / f"disk-{name}" / f"copy-of-node-{of}"
    return [one.name[21:] for one in sorted(folder.glob("0*-step-*"))]


@pytest.fixture
def two(cluster, make_hosts):
    nodes = Nodes(cluster, make_hosts(3), nnodes=2)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    return nodes, a, b


def test_a_lost_hosts_newest_entry_comes_back_from_its_buddy(cluster, two):
    nodes, a, b = two
    for step in (1, 2):
        for rank in (0, 1):
            save(cluster, rank, step, kib=3000)
        wait_for(f"step {step} of node 1 on node 0",
                 lambda step=step: copies(cluster, "node-a", 1)[-1:] == [f"step-{step}"])
        wait_for(f"step {step} of node 0 on node 1",
                 lambda step=step: copies(cluster, "node-b", 0)[-1:] == [f"step-{step}"])
    nodes.lose(b, 1)
    c = nodes.start("node-c", 2)
    cluster.started(2, 2)
    c.says(r"vault: restoring step-2 from node 0: 0 KiB of \d")
    c.says("vault: step-2 is put back from the copy on node 0")
    assert [seen(cluster, rank, 2)[1][-1] for rank in (0, 1)] == ["step-2:2"] * 2
    bulk = next(home for home in homes(cluster.folder / "disk-node-c")) / "node-1/step-2/bulk"
    assert bulk.stat().st_size == 3000 * 1024
    cluster.finish(2)
    assert [a.wait(), c.wait()] == [0, 0]
    # Its own disk has the entry by now, too.
    assert kept(cluster, "disk-node-c", 1)[-1] == "step-2"
    cluster.nothing_left(but=[nodes.daemon])


def test_all_nodes_go_on_from_the_newest_entry_that_each_has(cluster, two):
    nodes, a, b = two
    for step, ranks in ((1, (0, 1)), (2, (0, 1)), (3, (0,))):
        for rank in ranks:
            save(cluster, rank, step)
            wait_for("it on disk", lambda rank=rank, step=step: kept(
                cluster, f"disk-node-{'ab'[rank]}", rank)[-1:] == [f"step-{step}"])
    cluster.order(1, "exit 3")  # before its step 3
    cluster.started(2, 2)
    a.says("vault: not every node has the newest entry: all go on from step-2")
    assert [seen(cluster, rank, 2)[1] for rank in (0, 1)] == [["step-1:1", "step-2:2"]] * 2
    # What is saved now under the name of the hidden entry is another entry, and node 0's old step 3
    # does not count as a part of it.
    save(cluster, 1, 3)
    wait_for("it on disk", lambda: kept(cluster, "disk-node-b", 1)[-1:] == ["step-3"])
    cluster.order(0, "exit 3")
    cluster.started(3, 2)
    assert [seen(cluster, rank, 3)[1][-1] for rank in (0, 1)] == ["step-2:2"] * 2
    # Both have saved it, so it is the newest entry.
    for rank in (0, 1):
        save(cluster, rank, 3)
    cluster.order(0, "exit 3")
    cluster.started(4, 2)
    assert [seen(cluster, rank, 4)[1][-1] for rank in (0, 1)] == ["step-3:3"] * 2
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


@pytest.mark.parametrize("is_copy_damaged", [False, True])
def test_what_one_node_cannot_have_after_all_no_node_takes(cluster, two, is_copy_damaged):
    """The whole job is started again, and finds a damaged entry on one disk."""
    nodes, *agents = two
    for step in (1, 2):
        for rank in (0, 1):
            save(cluster, rank, step)
        wait_for("the copy of node 1's",
                 lambda step=step: copies(cluster, "node-a", 1)[-1:] == [f"step-{step}"])
        wait_for("node 0's on its disk",
                 lambda step=step: kept(cluster, "disk-node-a", 0)[-1:] == [f"step-{step}"])
    cluster.finish(2)
    assert [one.wait() for one in agents] == [0, 0]
    damaged = ["disk-node-b/node-1"] + ["disk-node-a/copy-of-node-1"] * is_copy_damaged
    for folder in damaged:
        (model,) = (cluster.folder / folder).glob("0*-step-2/files/step-2/model")
        model.write_text("3\n")
    cluster.events_path.write_text("")
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    b.says(r"warning: vault: .*-step-2 is damaged \(step-2/model does not have its checksum\)")
    if is_copy_damaged:
        b.says(r"warning: vault: step-2 cannot be put back \(node 0: .*\): the one before it is "
               r"taken")
        newest = "step-1:1"
    else:
        b.says("vault: step-2 is put back from the copy on node 0")
        newest = "step-2:2"
    assert [seen(cluster, rank, 1)[1][-1] for rank in (0, 1)] == [newest] * 2
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


def save_at_both(cluster, step, names=("node-a", "node-b")):
    """Saves at both nodes, and waits until each has the entry on its disk, and a copy of the
    other's part."""
    for rank, (own, other) in enumerate((names, names[::-1])):
        save(cluster, rank, step)
        wait_for(f"step {step} of node {rank} on its disk", lambda rank=rank, own=own: kept(
            cluster, f"disk-{own}", rank)[-1:] == [f"step-{step}"])
        wait_for(f"the copy of step {step} of node {rank}", lambda rank=rank, other=other: copies(
            cluster, other, rank)[-1:] == [f"step-{step}"])


def test_what_is_set_aside_does_not_come_back_from_a_copy(cluster, two):
    nodes, a, b = two
    for step in (1, 2):
        save_at_both(cluster, step)
    for round_number in (1, 2, 3):
        cluster.started(round_number, 2)
        assert seen(cluster, 0, round_number)[1][-1] == "step-2:2"
        cluster.order(0, "exit 3")
    cluster.started(4, 2)
    for agent in (a, b):
        agent.says("warning: vault: step-2 is set aside")
    assert [seen(cluster, rank, 4)[1] for rank in (0, 1)] == [["step-1:1"]] * 2
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]
    # The same holds when the whole job is started again, because the copies are set aside, too.
    cluster.events_path.write_text("")
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    assert [seen(cluster, rank, 1)[1] for rank in (0, 1)] == [["step-1:1"]] * 2
    assert not any("cannot be put back" in one.err() for one in nodes.agents)
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


@pytest.fixture
def elastic(cluster, make_hosts):
    """Two nodes, one of which may go on alone; both have saved steps 1 and 2."""
    nodes = Nodes(cluster, make_hosts(4), nnodes="1:2", daemon_host=3)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    for step in (1, 2):
        save_at_both(cluster, step)
    return nodes, a, b


def test_what_was_saved_by_one_node_alone_is_not_lost_when_another_comes(cluster, elastic):
    nodes, a, b = elastic
    nodes.lose(b, 1)
    cluster.started(2, 1)
    assert seen(cluster, 0, 2)[1][-1] == "step-2:2"
    save(cluster, 0, 3)
    c = nodes.start("node-c", 2)
    c.says("this node waits as a spare")
    cluster.order(0, "exit 3")
    cluster.started(3, 2)
    c.says("vault: step-3 is put back from the copy on node 0")
    assert [seen(cluster, rank, 3)[1][-1] for rank in (0, 1)] == ["step-3:3"] * 2
    # What both save from now on belongs to both.
    save(cluster, 0, 4)
    cluster.order(0, "exit 3")
    cluster.started(4, 2)
    assert [seen(cluster, rank, 4)[1][-1] for rank in (0, 1)] == ["step-3:3"] * 2
    save_at_both(cluster, 5, ("node-a", "node-c"))
    cluster.order(0, "exit 3")
    cluster.started(5, 2)
    assert [seen(cluster, rank, 5)[1][-1] for rank in (0, 1)] == ["step-5:5"] * 2
    assert c.err().count("step-3 is copied to node 0, too") == 1
    cluster.finish(2)
    assert [a.wait(), c.wait()] == [0, 0]


def test_a_node_that_is_left_alone_goes_on_from_the_copy_of_the_first(cluster, elastic):
    nodes, a, b = elastic
    nodes.lose(a, 0)
    cluster.started(2, 1)
    b.says("vault: step-2 is put back from the copy on this node")
    assert seen(cluster, 0, 2)[1][-1] == "step-2:2"
    cluster.finish(1)
    assert b.wait() == 0


def test_a_node_that_never_saves_delays_no_other_node(cluster, two):
    _, a, b = two
    save(cluster, 0, 1)
    wait_for("it on disk", lambda: kept(cluster, "disk-node-a", 0) == ["step-1"])
    cluster.order(1, "exit 3")
    cluster.started(2, 2)
    assert [seen(cluster, rank, 2)[1] for rank in (0, 1)] == [["step-1:1"], []]
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


def save_part_of_dcp(cluster, rank, step, below=""):
    """Ranks of two nodes save one checkpoint in this way: only the coordinator writes the
    .metadata. A Trainer has it in a folder of its own, and each node marks the whole."""
    last = "touch $at/.metadata; " if rank == 0 else ""
    mark = f"touch $DDPRUN_VAULT/step-{step}/.complete; " if below else ""
    cluster.order(rank, f"at=$DDPRUN_VAULT/step-{step}{below}; mkdir -p $at; echo {step} > "
                        f"$at/__{rank}_0.distcp; {last}{mark}say parted rank=$RANK step={step}")
    wait_for(f"rank {rank} to save its part of step {step}", lambda: any(
        (one.rank, one.step) == (str(rank), str(step)) for one in cluster.events("parted")))


@pytest.mark.parametrize("below", ["", "/pytorch_model_fsdp_0"])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_part_of_a_dcp_checkpoint_of_several_nodes_is_not_taken_for_the_whole(cluster, two,
                                                                                is_lost, below):
    nodes, a, b = two
    for rank in (0, 1):
        save_part_of_dcp(cluster, rank, 7, below)
    if below:
        b.says(r"warning: vault: step-7 is not kept: step-7/pytorch_model_fsdp_0 has files of a "
               r"DCP checkpoint and no .metadata")
    wait_for("node 0's on its disk", lambda: kept(cluster, "disk-node-a", 0) == ["step-7"])
    if is_lost:
        wait_for("the word of node 1", lambda: "node 1 saves, too" in a.err())
        nodes.lose(b, 1)
        b = nodes.start("node-c", 2)
    else:
        cluster.order(1, "exit 3")
    cluster.started(2, 2)
    if not is_lost:
        b.says(r"warning: vault: step-7 is a checkpoint of several nodes \(DCP\), whose .metadata "
               r"is on node 0 alone: no node goes on from it. Save it to a folder")
    a.says(r"warning: vault: no entry is on every node that has saved one "
           r"\(nodes 0, 1\): the workers start without one")
    cluster.order(0, f"say left markers=$(ls -d $DDPRUN_VAULT/*{below}/.metadata | wc -l)")
    assert wait_for("rank 0 to look", lambda: cluster.events("left"))[0].markers == "0"
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


def test_nothing_is_taken_where_a_node_has_lost_all_that_it_had(cluster, make_hosts):
    # The copy takes a day, so of the second node's part nothing is there but the message that it
    # saves.
    nodes = Nodes(cluster, make_hosts(3), *SLOW, nnodes=2)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    for rank in (0, 1):
        save(cluster, rank, 1, kib=500)
    wait_for("the word of node 1", lambda: "node 1 saves, too" in a.err())
    nodes.lose(b, 1)
    c = nodes.start("node-c", 2)
    cluster.started(2, 2)
    a.says(r"warning: vault: no entry is on every node that has saved one "
           r"\(nodes 0, 1\): the workers start without one")
    assert [seen(cluster, rank, 2)[1] for rank in (0, 1)] == [[], []]
    cluster.finish(2)
    assert [a.wait(), c.wait()] == [0, 0]


def test_a_stranger_at_the_port_is_turned_away_and_copies_go_on(cluster, make_hosts):
    hosts = make_hosts(2)
    nodes = Nodes(cluster, hosts, "--vault-port", 29555, nnodes=2)
    left = cluster.folder / "disk-node-a/copy-of-node-1/.unfinished-of-one-that-died"
    left.mkdir(parents=True)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    script = ("import socket, sys; s = socket.create_connection((sys.argv[1], 29555)); "
              "s.sendall(sys.argv[2].encode() * 1000); s.settimeout(300); print(s.recv(10))")
    for text in ("ddprun-vault 2 0123456789abcdef\nput 0\nentry 5 5 0 - a\n", "GET / HTTP/1.1\r\n",
                 "x" * 100):
        done = subprocess.run(
            [*hosts[1].prefix, "python3", "-c", script, hosts[0].address, text],
            capture_output=True, text=True, check=False)
        assert done.stdout.strip() == "b''" or "Reset" in done.stderr, done
    assert a.err().count("does not belong to this job has connected to the port for copies") == 1
    for rank in (0, 1):
        save(cluster, rank, 1)
    wait_for("node 1's on node 0", lambda: copies(cluster, "node-a", 1) == ["step-1"])
    assert not left.exists()
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


def test_a_copy_takes_no_more_than_the_rate(cluster, make_hosts):
    nodes = Nodes(cluster, make_hosts(2), "--vault-rate", "1M", nnodes=2)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    begun = time.monotonic()
    save(cluster, 1, 1, kib=2000)
    wait_for("it on node 0", lambda: copies(cluster, "node-a", 1) == ["step-1"])
    # The disk and the other node take two seconds each.
    assert time.monotonic() - begun >= 3.5
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


def test_a_buddy_whose_disk_is_full_is_one_line(cluster, make_hosts, small_disk):
    nodes = Nodes(cluster, make_hosts(2), nnodes=2)
    (cluster.folder / "disk-node-a").symlink_to(small_disk)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    fill(small_disk)
    for step in (1, 2):
        save(cluster, 1, step, kib=300)
        wait_for("it on its own disk", lambda step=step: kept(
            cluster, "disk-node-b", 1)[-1:] == [f"step-{step}"])
    b.says(r"warning: vault: cannot copy step-\d to node 0: cannot .*No space left on device; "
           r"training goes on, and it is tried again")
    cluster.order(1, "exit 3")
    cluster.started(2, 2)
    assert seen(cluster, 1, 2)[1][-1] == "step-2:2"
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]
    assert b.err().count("cannot copy") == 1
    assert not list(small_disk.glob("copy-of-node-1/.unfinished*"))


def test_a_folder_that_all_nodes_share_needs_no_copies(cluster, make_hosts):
    nodes = Nodes(cluster, make_hosts(2), nnodes=2)
    shared = cluster.folder / "shared"
    shared.mkdir()
    for name in ("node-a", "node-b"):
        (cluster.folder / f"disk-{name}").symlink_to(shared)
    a = nodes.start("node-a", 0)
    a.says("here: node-a")
    b = nodes.start("node-b", 1)
    cluster.started(1, 2)
    for rank in (0, 1):
        save(cluster, rank, 1)
    for agent, other in ((a, 1), (b, 0)):
        agent.says(f"vault: step-1 is copied to node {other}, too")
    assert not list(shared.glob("copy-of-*"))
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]


def started_pair(cluster, *with_vault, daemon=None, port_of_b=None):
    """Starts two nodes, of which the named ones have a vault."""
    daemon = daemon or cluster.daemon()
    agents = []
    for name, port in (("node-a", daemon.port), ("node-b", port_of_b or daemon.port)):
        vault = ("--vault", cluster.folder / f"disk-{name}") if name in with_vault else ()
        agents.append(cluster.agent(name, "--max-restarts", 9, *GO_ON, "--log-level", "debug",
                                    "--embed-daemon", "never", *vault, nnodes=2,
                                    endpoint=f"127.0.0.1:{port}"))
        if name == "node-a":
            agents[0].says("here: node-a")
    cluster.started(1, 2)
    return agents


def test_a_node_without_a_vault_is_one_line_and_not_waited_for(cluster):
    a, b = started_pair(cluster, "node-a")
    a.says("warning: vault: node 1 has no --vault: nothing that is saved there is kept or put back")
    b.says("vault: other nodes of this job have one; this node has no --vault, and its workers get "
           "no DDPRUN_VAULT")
    save(cluster, 0, 1)
    for round_number in (1, 2):
        cluster.order(1, "exit 3")
        cluster.started(round_number + 1, 2)
        assert seen(cluster, 0, round_number + 1)[1] == ["step-1:1"]
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]
    assert "have not agreed" not in a.err()
    assert [a.err().count("has no --vault"), b.err().count("has no --vault")] == [1, 1]


def test_without_a_vault_at_the_first_node_each_is_on_its_own(cluster):
    a, b = started_pair(cluster, "node-b")
    b.says("warning: vault: node 0 has no --vault, or an older ddprun: the nodes keep no copies "
           "for each other, and each goes on from its newest entry")
    save(cluster, 1, 1)
    cluster.order(0, "exit 3")
    cluster.started(2, 2)
    assert seen(cluster, 1, 2)[1] == ["step-1:1"]
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]
    assert b.err().count("node 0 has no --vault") == 1
    assert "vault" not in a.err()


def test_in_a_job_without_vaults_nothing_is_said_in_its_store(cluster):
    a, b = started_pair(cluster)
    cluster.finish(2)
    assert [a.wait(), b.wait()] == [0, 0]
    assert "vault" not in a.err() + b.err()


def without_the_mark(message):
    """An older ddprun ignores the leader's mark."""
    assigned = message.get("assignment") or {}
    assigned.pop("leader_data", None)
    assigned.pop("leader_data_about", None)
    return message


def test_a_node_that_knows_no_agreement_holds_the_others_up_once(cluster):
    """An older ddprun beside a newer one."""
    daemon = cluster.daemon()
    with Relay(daemon.port, of_daemon=without_the_mark) as relay:
        a, b = started_pair(cluster, "node-a", "node-b", daemon=daemon, port_of_b=relay.port)
        a.says(r"warning: vault: the nodes have not agreed on one entry \(node 1 does not say what "
               r"its vault holds \(is its disk slow, or its ddprun older\?\)\): each goes on from "
               r"its newest")
        b.says("warning: vault: node 0 has no --vault, or an older ddprun")
        for rank in (0, 1):
            save(cluster, rank, 1)
        for round_number in (1, 2):
            cluster.order(1, "exit 3")
            cluster.started(round_number + 1, 2)
            assert [seen(cluster, rank, round_number + 1)[1] for rank in (0, 1)] == [
                ["step-1:1"]] * 2
        cluster.finish(2)
        assert [a.wait(), b.wait()] == [0, 0]
        assert a.err().count("have not agreed") == 1


def test_a_port_that_is_taken_is_one_line(cluster):
    with socket.socket() as taken:
        taken.bind(("", free_port()))
        taken.listen()
        daemon = cluster.daemon()
        agents = [cluster.agent(name, "--vault", cluster.folder / name, *more, nnodes=2,
                                endpoint=f"127.0.0.1:{daemon.port}")
                  for name, more in (("node-a", ("--vault-port", taken.getsockname()[1])),
                                     ("node-b", ()))]
        cluster.started(1, 2)
        agents[0].says(r"warning: vault: no other node can have copies kept here: cannot listen at "
                       r"port \d+: Address already in use \(--vault-port\)")
        cluster.finish(2)
        assert [one.wait() for one in agents] == [0, 0]
