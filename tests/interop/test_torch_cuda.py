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


def no_warning(agent):
    """LibTorch warns about a group that was not shut down, and aborts NCCL then."""
    assert "ProcessGroup" not in agent.err() and "arning" not in agent.err(), agent.err()


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_ranks_sum_over_nccl(cluster):
    """There is a rank on each GPU; if there is only one GPU, it has two."""
    ranks, command = placed([PROGRAM])
    agent = cluster.agent("node-a", workers=ranks, command=["--no-python", *command])
    ended_well(agent, LIMIT)
    total = ranks * (ranks + 1) // 2
    for rank in range(ranks):
        assert f"rank {rank}: {total}\n" in agent.out()
    no_warning(agent)


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_one_rank_sums_over_nccl(cluster):
    agent = cluster.agent("node-a", command=["--no-python", PROGRAM])
    ended_well(agent, LIMIT)
    assert "rank 0: 1\n" in agent.out()
    no_warning(agent)


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_a_snapshot_needs_no_pinned_memory(cluster):
    agent = cluster.agent("node-a", command=["--no-python", BIN / "torch_cuda_checks",
                                             "without-pinned-memory"])
    ended_well(agent, LIMIT)
    assert "right: all tensors are kept without pinned memory\n" in agent.out()
    assert agent.err().count("snapshots: no pinned memory for cuda:0 (no memory to pin): its "
                             "tensors are copied without, which takes longer\n") == 1


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_state_and_training_on_a_gpu(cluster):
    agent = cluster.agent("node-a", command=["--no-python", BIN / "torch_cuda_checks"])
    ended_well(agent, LIMIT)
    assert re.findall(r"(?:right|wrong): .*", agent.out()) == [
        "right: a snapshot has what the caller's stream was still to write",
        "right: tensors of any length and order are kept, through bounded pinned memory",
        "right: and by a save that is waited for",
        "right: and by a save that copies them while the program goes on",
        "right: a pass to warm up leaves buffers and random numbers of the GPU as they were",
        "right: bfloat16 by autocast, with gradients of float32",
        "right: a batch for the GPU lies in pinned memory",
        "right: NCCL's timeout is 10 minutes",
    ]
    no_warning(agent)


def trained(cluster, folder, ranks_by, last_step):
    """What each rank printed of the round that came to the end."""
    program = [BIN / "torch_cuda_training", folder, ranks_by, str(last_step)]
    ranks, command = placed(program)
    agent = cluster.agent("node-a", "--max-restarts", 1, workers=ranks,
                          command=["--no-python", *command])
    ended_well(agent, LIMIT)
    ends = re.findall(r"rank (\d+), from step (\d+): (\w+)", agent.out())
    assert sorted(int(rank) for rank, *_ in ends) == list(range(ranks)), agent.out()
    return ends, agent


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
@pytest.mark.parametrize("ranks_by", ["gloo", "nccl-alone"])
def test_a_rank_that_dies_on_gpus_costs_no_step(cluster, tmp_path, ranks_by):
    """The others are waiting for it in NCCL, and save the last finished step."""
    whole, _ = trained(cluster, tmp_path / "whole", ranks_by, 0)
    assert {first for _, first, _ in whole} == {"1"}
    rest, agent = trained(cluster, tmp_path / "lost", ranks_by, 6)
    assert {first for _, first, _ in rest} == {"6"}, agent.err() + agent.out()
    assert {end for *_, end in rest} == {end for *_, end in whole}
    assert "snapshot-000001-000005 was saved by the ranks that are left" in agent.err()
