"""worker/nccl/communicator with the real NCCL: every collective is checked on the GPU, for all
ranks, for parts of them and for a second communicator. Ranks meet by the launcher's ids: one for
all of them, and one for each (ncclCommInitRankScalable)."""

import re

import pytest

from tests.support.cluster import BIN
from tests.support.gpus import ended_well, on_one_gpu, visible_gpus
from tests.support.installed_nccl import linked_nccl

PROGRAM = BIN / "nccl_collectives"
GPUS = visible_gpus()
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs NCCL to be built")
needs_gpu = pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
LIMIT = 600  # ranks that share a GPU take turns on it
CHECKS = [
    "sum of float", "max of double", "min of int32", "sum in place of uint64", "sum of uint8",
    "average", "broadcast from 0", "all_gather", "reduce_scatter", "ring of sends",
    "grouped reductions, the second",
]


def start(cluster, workers, program=(PROGRAM,), ranks_per_id=128):
    # If a shell starts it, ddprun cannot see what it is linked with.
    named = {"DDPRUN_NCCL_LIBRARY": linked_nccl(PROGRAM)} if len(program) > 1 else {}
    return cluster.agent("node-a", "--nccl-ids", "on", "--log-line-prefix-template", "[${rank}] ",
                         workers=workers, command=["--no-python", *program],
                         environment={"TORCH_NCCL_RANKS_PER_ROOT": str(ranks_per_id), **named})


def right(agent, rank, which):
    return set(re.findall(rf"^\[{rank}\] right: {which}: (.*)$", agent.out(), re.MULTILINE))


def all_checked(agent, ranks):
    for rank in range(ranks):
        half = "even ranks" if rank % 2 == 0 else "odd ranks"
        others = [] if rank > 0 and rank == ranks - 1 else ["all but the last"]
        for which in ["all ranks", half, *others, "second communicator"]:
            assert right(agent, rank, which) >= set(CHECKS), (rank, which)
        assert re.search(rf"^\[{rank}\] all is right on rank {rank} of {ranks}, GPU \d+$",
                         agent.out(), re.MULTILINE)
    if ranks > 1:
        assert f"broadcast from {ranks - 1}" in right(agent, 0, "all ranks")
        assert "send alone" in right(agent, ranks - 1, "all ranks")


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
def test_a_worker_without_a_gpu_says_so(cluster):
    """Its ids are made with the NCCL that it is linked with, so nothing else is wrong."""
    agent = start(cluster, 2, ranks_per_id=1)
    assert agent.wait() == 1
    assert re.search(r"nccl_collectives: rank [01] of 2, NCCL [0-9.]+: join: no GPU is visible",
                     agent.err())


@needs_gpu
def test_one_rank(cluster):
    agent = start(cluster, 1)
    ended_well(agent, LIMIT)
    all_checked(agent, 1)


@pytest.mark.skipif(GPUS < 2, reason="needs two NVIDIA GPUs")
@pytest.mark.parametrize("ranks_per_id", [128, 1])
def test_a_rank_on_each_gpu(cluster, ranks_per_id):
    agent = start(cluster, GPUS, ranks_per_id=ranks_per_id)
    ended_well(agent, LIMIT)
    all_checked(agent, GPUS)


@needs_gpu
@pytest.mark.parametrize("ranks_per_id", [128, 2, 1])
def test_three_ranks_on_one_gpu(cluster, ranks_per_id):
    agent = start(cluster, 3, on_one_gpu([PROGRAM]), ranks_per_id)
    ended_well(agent, LIMIT)
    all_checked(agent, 3)
