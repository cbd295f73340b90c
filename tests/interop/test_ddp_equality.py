"""The C++ DistributedDataParallel, and averages of weights, compared with PyTorch's own: the same
seeds, data and model."""

import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN

PROGRAM = BIN / "ddp_steps"
SCRIPT = Path(__file__).with_name("ddp_steps.py")
WAYS = ["plain", "bucket_view", "accumulate", "unused", "static", "fp16", "bf16", "uneven",
        "uneven_unused", "uneven_own_buffers", "conv", "shared", "sparse", "mixed", "outputs",
        "outputs_unused", "outputs_static"]
PARAMETERS = {"conv": 4 * 10 + 2 * 4 + 33 * 4, "shared": 9 * 8 + 9 * 4, "sparse": 101 * 8 + 9 * 4,
              "mixed": 9 * 16 + 17 * 4, "outputs": 9 * 16 + 2 * 17 * 4}
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs a build with LibTorch")


def figures_of(folder, ranks):
    """{(way, name): figures} for each rank."""
    every = []
    for rank in range(ranks):
        lines = (folder / str(rank)).read_text().splitlines()
        words = [line.split() for line in lines]
        every.append({(line[0], line[1]): [float(word) for word in line[2:]] for line in words})
    return every


def run(cluster, name, ranks, command, folder):
    folder.mkdir()
    agent = cluster.agent(name, workers=ranks, run=name, command=[*command, folder],
                          environment={"OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable})
    assert agent.wait() == 0, agent.err()
    return figures_of(folder, ranks)


def apart(one, other):
    assert len(one) == len(other)
    return max((abs(a - b) for a, b in zip(one, other)), default=0.0)


@pytest.mark.parametrize("ranks", [2, 3])
def test_parameters_are_those_of_pytorch(cluster, tmp_path, ranks):
    ours = run(cluster, "cpp", ranks, ["--no-python", PROGRAM], tmp_path / "cpp")
    theirs = run(cluster, "python", ranks, [SCRIPT], tmp_path / "python")
    for way in WAYS:
        for rank in range(ranks):
            for name in ("losses", "gradients", "parameters", "buffers", "averages"):
                distance = apart(ours[rank][way, name], theirs[rank][way, name])
                assert distance <= 1e-6, f"{way}, rank {rank}: {name} are {distance} apart"
            assert ours[rank][way, "parameters"] == ours[0][way, "parameters"], way
            assert ours[rank][way, "gradients"] == ours[0][way, "gradients"], way
            assert len(ours[rank][way, "parameters"]) == PARAMETERS.get(
                way.split("_")[0], 8 * 16 + 16 + 2 * 16 + 17 * 16 + 17 * 4)
        assert ours[0][way, "losses"] != ours[1][way, "losses"], way
        weights = ours[0][way, "parameters"]
        assert apart(ours[0][way, "averages"][:len(weights)], weights) > 1e-4, way
