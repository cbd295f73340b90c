"""LibTorch's NCCL backend in a C++ program: worker/torch_cuda."""

import re

import pytest

from tests.support.cluster import BIN
from tests.support.gpus import ended_well, placed, visible_gpus

PROGRAM = BIN / "torch_cuda_rank"
GPUS = visible_gpus()
LIMIT = 240  # LibTorch for CUDA is gigabytes
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs a LibTorch for CUDA")


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
def test_a_rank_without_a_gpu_says_so(cluster):
    agent = cluster.agent("node-a", workers=2, command=["--no-python", PROGRAM])
    assert agent.wait() == 1
    assert re.search(r"torch_cuda_rank: rank [01] of 2: no GPU is visible", agent.err())


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_ranks_sum_over_nccl(cluster):
    """A rank on each GPU; on the only one there are two."""
    ranks, command = placed([PROGRAM])
    agent = cluster.agent("node-a", workers=ranks, command=["--no-python", *command])
    ended_well(agent, LIMIT)
    total = ranks * (ranks + 1) // 2
    for rank in range(ranks):
        assert f"rank {rank}: {total}\n" in agent.out()


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_one_rank_sums_over_nccl(cluster):
    agent = cluster.agent("node-a", command=["--no-python", PROGRAM])
    ended_well(agent, LIMIT)
    assert "rank 0: 1\n" in agent.out()
