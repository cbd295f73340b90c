"""LibTorch's NCCL backend in a C++ program: worker/torch_cuda."""

import re

import pytest

from tests.support.cluster import BIN
from tests.support.gpus import visible_gpus

PROGRAM = BIN / "torch_cuda_rank"
GPUS = visible_gpus()
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs a LibTorch for CUDA")


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
def test_a_rank_without_a_gpu_says_so(cluster):
    agent = cluster.agent("node-a", workers=2, command=["--no-python", PROGRAM])
    assert agent.wait() == 1
    assert re.search(r"torch_cuda_rank: rank [01] of 2: no GPU is visible", agent.err())


@pytest.mark.skipif(GPUS < 2, reason="needs two NVIDIA GPUs: one rank's sum is its own")
def test_ranks_sum_over_nccl(cluster):
    agent = cluster.agent("node-a", workers=GPUS, command=["--no-python", PROGRAM])
    assert agent.wait() == 0, agent.err()
    total = GPUS * (GPUS + 1) // 2
    for rank in range(GPUS):
        assert f"rank {rank}: {total}" in agent.out()
