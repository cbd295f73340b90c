"""examples/05_sampler_walk: the C++ program and PyTorch's sampler deal the same samples out."""

import sys

import pytest

from tests.support.cluster import BIN, ROOT

PROGRAM = BIN / "sampler_walk"
SCRIPT = ROOT / "examples" / "05_sampler_walk" / "sampler_walk.py"
LIMIT = 120


def walk(cluster, command, workers):
    agent = cluster.agent("node", workers=workers, command=command,
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait(LIMIT) == 0, agent.err()
    return sorted(agent.out().splitlines())


def test_each_rank_has_its_share(cluster):
    lines = walk(cluster, ["--no-python", PROGRAM], 3)
    assert len(lines) == 3 * 9
    even = [line.split("[")[-1] for line in lines if "| 1 even" in line]
    assert even == ["0 3]", "1 4]", "2 5]"]


def test_the_shares_are_those_of_pytorch(cluster):
    pytest.importorskip("torch", reason="PyTorch is not installed here")
    ours = walk(cluster, ["--no-python", PROGRAM], 3)
    assert walk(cluster, [SCRIPT], 3) == ours
