"""`ddprun --host-discovery`: hosts come and go while the job runs, each over a real sshd."""

import os
import re
import signal
from collections import Counter

import pytest

from tests.support.cluster import BIN, Program, wait_for
from tests.support.ssh_jobs import head, two_servers

AT_ONCE = ("--rdzv-conf", "last_call_timeout=0.5", "--on-join", "restart")


class Hosts:
    """A script that prints the hosts that the test has last written."""

    def __init__(self, cluster):
        self.list = cluster.folder / "hosts"
        self.script = cluster.folder / "discover"
        self.script.write_text(f"#!/bin/sh\ncat {self.list}\n")
        self.script.chmod(0o755)

    def are(self, *lines):
        """Replaces the file at once, so that the script never reads a part of it."""
        new = self.list.with_suffix(".new")
        new.write_text("".join(line + "\n" for line in lines))
        os.replace(new, self.list)

    @property
    def arguments(self):
        return ["--host-discovery", self.script]


@pytest.fixture
def listed(cluster):
    return Hosts(cluster)


def discovering(cluster, net, listed, here, *arguments, nnodes="1:3", **more):
    return head(cluster, net, listed.arguments, "--nnodes", nnodes, *AT_ONCE, *arguments, host=here,
                **more)


def round_of(cluster, count, after=0):
    """The first round after that one that has so many workers. A node that comes after the last
    call makes the others start once more."""

    def look():
        workers = Counter(int(each.round) for each in cluster.events("start"))
        return [each for each in sorted(workers) if each > after and workers[each] == count]

    return wait_for(f"a round of {count} workers after round {after}", look)[0]


def test_a_host_that_comes_gets_an_agent_and_one_that_goes_is_drained(cluster, net, make_hosts,
                                                                      listed):
    here, (one, other) = two_servers(net, make_hosts)
    listed.are("node-a:2")
    program = discovering(cluster, net, listed, here)
    cluster.started(1, 2)
    listed.are("node-a:2", "node-b")
    assert [each.node for each in cluster.started(2, 3)] == ["node-a", "node-a", "node-b"]
    listed.are("node-b:1")
    assert [each.node for each in cluster.started(3, 1)] == ["node-b"]
    one.nobody_is_in()
    assert "host discovery: node-b has come" in program.err()
    assert re.search("host discovery: node-a has gone$", program.err(), re.M), program.err()
    cluster.order(0, "exit 7")
    assert program.wait() == 7, program.err()
    other.nobody_is_in()


def test_a_run_waits_for_its_hosts_and_one_too_many_waits_its_turn(cluster, net, make_hosts,
                                                                   listed):
    here, (one, other) = two_servers(net, make_hosts)
    listed.are("# none yet")
    program = discovering(cluster, net, listed, here, nnodes="1")
    program.says("no host is in it; no host is known yet; trying again every second")
    listed.are("node-a:1", "node-b:1")
    assert [each.node for each in cluster.started(1, 1)] == ["node-a"]
    assert other.logins() == 0
    listed.are("node-b:1")
    wait_for("the other one's turn", lambda: any(
        each.node == "node-b" for each in cluster.events("start")))
    one.nobody_is_in()
    cluster.finish(1)
    assert program.wait() == 0, program.err()


def test_a_host_with_another_number_of_workers_is_started_anew(cluster, net, make_hosts, listed):
    here, _ = two_servers(net, make_hosts)
    listed.are("node-a", "node-b:2")
    program = discovering(cluster, net, listed, here)
    round_of(cluster, 3)
    listed.are("node-a", "node-b:1")
    program.says("host discovery: node-b has another number of workers")
    wait_for("a round of two", lambda: {each.node for each in cluster.events("start")
                                        if each.world_size == "2"} == {"node-a", "node-b"})
    cluster.finish(2)
    assert program.wait() == 0, program.err()


def test_a_script_that_fails_is_named_once_and_the_last_list_counts(cluster, net, make_hosts,
                                                                    listed):
    here, _ = two_servers(net, make_hosts)
    listed.are("node-a", "node-b")
    program = discovering(cluster, net, listed, here, nnodes="2:3")
    cluster.started(1, 2)
    listed.list.unlink()
    program.says(r"host discovery: .*discover: ended with exit code 1: cat: .*No such file.*; "
                 "the last good list stays in effect")
    listed.are("Traceback (most recent call last):")
    program.says(r'its output:1: "\(most" is not understood')
    listed.are()
    program.says("its output: no host is in it; the last good list stays in effect")
    listed.are("node-b", "node-a")
    program.says("host discovery: there is a valid list again")
    assert not cluster.events("term")
    cluster.finish(2)
    assert program.wait() == 0, program.err()
    assert len(re.findall("warning: host discovery", program.err())) == 3, program.err()
    assert "have come" in program.err() and "gone" not in program.err()


def test_a_host_that_fails_again_and_again_rests_longer_each_time(cluster, net, make_hosts, listed):
    here, _ = two_servers(net, make_hosts)
    listed.are("node-a", "nowhere.invalid")
    program = discovering(cluster, net, listed, here)
    cluster.started(1, 1)
    for failure, rest in ((1, "1 s"), (2, "[12] s"), (3, "[234] s")):
        program.says(rf"warning: nowhere.invalid: no agent was started \(failure {failure} there; "
                     rf"the host rests for {rest}\): ssh: Could not resolve")
    cluster.finish(1)
    assert program.wait() == 0, program.err()


def test_a_refused_key_is_tried_again_when_the_host_has_been_away(cluster, net, make_hosts, listed):
    here, (_, other) = two_servers(net, make_hosts)
    settings = other.folder / "sshd_config"
    right = settings.read_text()
    other.stop()
    (other.folder / "nobody").write_text("")
    settings.write_text(right.replace(f"{net.folder}/user_key.pub", f"{other.folder}/nobody"))
    other.start()
    listed.are("node-a", "node-b")
    program = discovering(cluster, net, listed, here)
    program.says("node-b: no agent was started, nor will one be until the host has left the list: "
                 ".*Permission denied")
    cluster.started(1, 1)
    other.stop()
    settings.write_text(right)
    other.start()
    listed.are("node-a")
    program.says("node-b has gone")
    assert other.logins() == 0
    listed.are("node-a", "node-b")
    cluster.started(2, 2)
    cluster.finish(2)
    assert program.wait() == 0, program.err()


def test_a_host_that_is_lost_comes_back_when_it_can(cluster, net, make_hosts, listed):
    here, (_, other) = two_servers(net, make_hosts)
    listed.are("node-a", "node-b")
    program = discovering(cluster, net, listed, here)
    first = round_of(cluster, 2)
    other.stop()
    program.says(r"node-b: its agent is lost \(failure 1 there; the host rests for 1 s\)")
    other.start()
    round_of(cluster, 2, after=first)
    cluster.finish(2)
    assert program.wait() == 0, program.err()


def test_a_host_that_is_taken_off_the_list_and_put_back_still_rests(cluster, net, make_hosts,
                                                                    listed):
    here, _ = two_servers(net, make_hosts)
    listed.are("node-a", "nowhere.invalid")
    program = discovering(cluster, net, listed, here)
    cluster.started(1, 1)
    program.says(r"nowhere.invalid: no agent was started \(failure 4 there")
    listed.are("node-a")
    program.says("nowhere.invalid has gone")
    listed.are("node-a", "nowhere.invalid")
    program.says(r"host discovery: nowhere.invalid has come; nowhere.invalid rests for [1-8] s "
                 "more")
    program.says(r"nowhere.invalid: no agent was started \(failure 5 there")
    cluster.finish(1)
    assert program.wait() == 0, program.err()


def test_a_run_that_fails_with_the_code_of_a_drained_node_is_over(cluster, net, make_hosts, listed):
    here, servers = two_servers(net, make_hosts)
    listed.are("node-a", "node-b")
    program = discovering(cluster, net, listed, here, nnodes="2:3")
    cluster.started(1, 2)
    cluster.order(0, "exit 143")
    assert program.wait() == 143, program.err()
    assert "drained" not in program.err()
    assert len(cluster.events("start")) == 2
    for server in servers:
        server.nobody_is_in()


@pytest.mark.parametrize("code", [[], ["--drain-exit-code=0"]], ids=["143", "0"])
def test_a_node_that_is_drained_by_hand_comes_back(cluster, net, make_hosts, listed, code):
    here, (_, other) = two_servers(net, make_hosts)
    listed.are("node-a", "node-b")
    program = discovering(cluster, net, listed, here, *code, nnodes="2:3")
    cluster.started(1, 2)
    os.kill(other.agent(), signal.SIGTERM)
    program.says(r"node-b: its node was drained \(failure 1 there; the host rests for 1 s\)")
    rounds = wait_for("a round of both again", lambda: [
        each.round for each in cluster.events("start")
        if each.node == "node-b" and int(each.round) > 1])
    cluster.started(int(rounds[-1]), 2)
    cluster.finish(2)
    assert program.wait() == 0, program.err()


@pytest.mark.main_path
def test_ctrl_c_ends_all_and_the_script_with_it(cluster, net, make_hosts, listed):
    here, servers = two_servers(net, make_hosts)
    listed.are("node-a", "node-b")
    program = discovering(cluster, net, listed, here, nnodes="2:3")
    cluster.started(1, 2)
    listed.script.write_text("#!/bin/sh\nsleep 1000 &\nsleep 1000\n")
    wait_for("the script to hang", lambda: any(line.startswith("sleep 1000")
                                               for line in cluster.marked().values()))
    program.kill(signal.SIGINT)
    assert program.wait() == 130, program.err()
    for server in servers:
        server.nobody_is_in()
    cluster.nothing_left(but=[one.program for one in servers])


def test_no_host_at_all_is_said_within_the_join_timeout(cluster, net, make_hosts, listed):
    here, _ = two_servers(net, make_hosts)
    listed.are("nowhere.invalid")
    program = head(cluster, net, listed.arguments, "--nnodes=1:2", "--rdzv-conf=join_timeout=3",
                   host=here)
    assert program.wait() == 69, program.err()
    assert "error: no agent runs on any host after 3 s (join_timeout)" in program.err()


def test_so_many_workers_in_all(cluster, net, make_hosts):
    here, _ = two_servers(net, make_hosts)
    program = head(cluster, net, ["-np", "3", "-H", "node-a:2,node-b:2"], host=here)
    assert [one.node for one in cluster.started(1, 3)] == ["node-a", "node-a", "node-b"]
    cluster.finish(3)
    assert program.wait() == 0, program.err()


@pytest.mark.parametrize("arguments, words", [
    (["-np", "5", "-H", "a:2,b:2"], "--num-proc=5: the list has 4 workers; give the hosts more"),
    (["-np", "2", "-H", "a,b", "--nproc-per-node=1"], "both say how many workers there are"),
    (["-np", "2"], "that is for several hosts; add -H HOST,... or --hostfile FILE"),
    (["--host-discovery", "./x", "-H", "a"], "both name hosts; leave one out"),
    (["--host-discovery", "./x"], "say how many hosts the run may have: --nnodes MIN:MAX"),
    (["--host-discovery-script", "./x", "--min-np", "2"], "write --nnodes MIN:MAX"),
    (["--host-discovery", "./x", "--nnodes=1:2"], "--host-discovery=./x: there is no such file"),
    (["--host-discovery", "FILE", "--nnodes=1:2"], "this file may not be executed; chmod +x it"),
])
def test_bad_input_is_one_line(cluster, tmp_path, arguments, words):
    (tmp_path / "script").write_text("echo a\n")
    given = [word.replace("FILE", str(tmp_path / "script")) for word in arguments]
    program = Program(cluster, "head", [BIN / "ddprun", *given, "train.py"], cwd=tmp_path)
    assert program.wait() == 2
    assert words in program.err()
    assert len(program.err().splitlines()) == 1, program.err()
