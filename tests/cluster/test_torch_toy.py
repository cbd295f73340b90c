"""examples/04_toy in each form in which people launch it: the C++ program and the PyTorch script
print the same."""

import pytest

from tests.support.cluster import Program
from tests.support.ports import free_port
from tests.support.workload import Workload, lines_of

TOY = Workload("toy", "04_toy", "toy.py")
LIMIT = 240
BY_HAND = ["--rank", "{rank}", "--world-size", "{world_size}", "--ip", "{master_addr}",
           "--port", "{master_port}"]


def expected(world_size):
    total = world_size * (world_size + 1) // 2
    last = [10 * (world_size - 1) + index for index in range(3)]
    lines = []
    for rank in range(world_size):
        lines.append(f"rank {rank} of {world_size}: all_reduce {[rank + 1] * 3} -> {[total] * 3}")
        lines.append(f"rank {rank} of {world_size}: broadcast from the last "
                     f"{[10 * rank + index for index in range(3)]} -> {last}")
    return sorted(lines)


@pytest.mark.parametrize("nodes", [[2], [1, 1], [2, 3]])
def test_on_one_node_and_on_more(cluster, nodes):
    assert TOY.run(cluster, "program", nodes) == expected(sum(nodes))


@pytest.mark.parametrize("nodes", [pytest.param([1, 1], marks=pytest.mark.slow), [2, 3]])
def test_the_script_on_two_nodes(cluster, nodes):
    assert TOY.run(cluster, "python", nodes) == expected(sum(nodes))


@pytest.mark.parametrize("kind", ["program", "python"])
def test_ranks_told_by_arguments_that_the_launcher_fills_in(cluster, kind):
    assert TOY.run(cluster, kind, [2], *BY_HAND) == expected(2)


@pytest.mark.parametrize("kind, ranks", [("program", [2, 0, 1]), ("python", [1, 0])])
def test_ranks_started_by_hand(cluster, kind, ranks):
    port = free_port()
    assert lines_of([
        Program(cluster, f"rank{rank}", TOY.by_hand(
            kind, "--rank", rank, "--world-size", len(ranks), "--ip", "127.0.0.1", "--port", port))
        for rank in ranks]) == expected(len(ranks))


def test_what_is_missing_by_hand_is_said(cluster):
    help_line = "; --help lists the options\n"
    for arguments, line in [
            (["--rank", 0], "--rank, --world-size, --ip and --port go together" + help_line),
            (["--rank", "x"], "--rank is 'x': it must be a whole number of at least 0" + help_line),
            (["--rnk"], "The following argument was not expected: --rnk" + help_line),
            (["--rank", 3, "--world-size", 3, "--ip", "::1", "--port", 1],
             "rank 3 of 3 does not exist: ranks are 0 to the world size minus one\n"),
            ([], "WORLD_SIZE is not set: start this program with ddprun or torchrun, which set "
                 "it\n")]:
        one = Program(cluster, "alone", TOY.by_hand("program", *arguments))
        assert one.wait(LIMIT) != 0
        assert one.err() == "toy: " + line
