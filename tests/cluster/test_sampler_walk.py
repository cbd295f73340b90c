"""examples/05_sampler_walk in each form in which people launch it: the C++ program and PyTorch's
sampler give out the same samples."""

import re

from tests.support.cluster import ROOT, Program
from tests.support.workload import PLACE, Workload, lines_of

EXAMPLE = Workload("sampler_walk", "05_sampler_walk", "sampler_walk.py")
WHO = ["--rank", "{rank}", "--world-size", "{world_size}"]


def shares(lines, case):
    return [line.split("[")[-1] for line in lines if f"| {case}" in line]


def test_each_rank_has_its_share(cluster):
    lines = EXAMPLE.run(cluster, "program", [3])
    assert len(lines) == 3 * 9
    assert shares(lines, "1 even") == ["0 3]", "1 4]", "2 5]"]


def test_ranks_of_two_nodes_told_by_the_launcher_by_arguments_and_by_hand(cluster):
    five = EXAMPLE.run(cluster, "program", [2, 3])
    assert shares(five, "1 even") == ["0 5]", "1 6]", "2 7]", "3 8]", "4 9]"]
    assert EXAMPLE.run(cluster, "program", [3, 2], *WHO) == five
    by_hand = [Program(cluster, f"rank{rank}", EXAMPLE.by_hand("program", "--rank", rank,
                                                               f"--world-size={5}"))
               for rank in range(5)]
    assert lines_of(by_hand) == five


def test_two_hosts_print_what_the_page_shows(cluster):
    page = (ROOT / "examples/05_sampler_walk/README.md").read_text()
    shown = re.findall(r"^\[node-[ab]:\d\] rank \d of 5 .*$", page, re.M)
    assert len(shown) == 5
    endpoint = f"127.0.0.1:{cluster.daemon().port}"
    # Here both have one host's name, so that their ranks are in the order in which they come.
    agents = []
    for node, workers in (("node-a", 2), ("node-b", 3)):
        agents.append(cluster.agent(node, workers=workers, nnodes=2, run="walk",
                                    endpoint=endpoint, command=EXAMPLE.command("program")))
        agents[0].says("waiting for 1 of 2 nodes")
    assert [agent.wait() for agent in agents] == [0, 0]
    printed = "".join(agent.out() for agent in agents).splitlines()
    assert [line for line in printed if "| 1 even" in line and line not in shown] == []
    assert set(shown) <= set(printed)


def test_the_shares_are_those_of_pytorch(cluster):
    ours = EXAMPLE.run(cluster, "program", [1, 1])
    assert EXAMPLE.run(cluster, "python", [2], *WHO) == ours
    assert EXAMPLE.run(cluster, "python", [1, 1], "--backend", "gloo", *PLACE) == ours


def test_what_is_wrong_by_hand_is_said(cluster):
    for arguments, status, line in [
            (["--rank", 0], 2, "--rank and --world-size go together\n"),
            (["--rank=x"], 2, "--rank is 'x': it must be a whole number of at least 0\n"),
            (["--world-size", 0], 2,
             "--world-size is '0': it must be a whole number of at least 1\n"),
            (["--rank"], 2, "--rank needs a number\n"),
            (["--rnk", 1], 2, "--rnk is no option; --help lists them\n"),
            (["--rank", 3, "--world-size", 3], 2,
             "rank 3 of 3 does not exist: ranks are 0 to the world size minus one\n"),
            ([], 1, "WORLD_SIZE is not set: start this program with ddprun or torchrun, which set "
                    "it\n")]:
        one = Program(cluster, "alone", EXAMPLE.by_hand("program", *arguments))
        assert one.wait() == status
        assert one.err() == "sampler_walk: " + line
