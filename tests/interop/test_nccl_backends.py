"""PyTorch's own NCCL backends under ddprun: the name and TORCH_DIST_USE_NCCL2 say which class a
process group gets, and with each of them the ranks find their GPUs by the launcher's variables.

Without a GPU each class refuses with a message of its own; the rest of the script runs with
Gloo."""

import re
import sys
import textwrap

import pytest
import torch_versions

from tests.support.cluster import ROOT
from tests.support.gpus import ended_well, placed, visible_gpus

GPUS = visible_gpus()
LIMIT = 240  # PyTorch is imported, and CUDA started
ALL_REDUCE = ROOT / "examples" / "03_nccl_allreduce" / "all_reduce.py"
needs_gpu = pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
SCRIPT = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist
    name = sys.argv[1]
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cpu")
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        gpu = torch.cuda.get_device_properties(device).uuid
    dist.init_process_group(name)
    rank, world = dist.get_rank(), dist.get_world_size()
    data = torch.full((1000,), float(rank + 1), device=device)
    dist.all_reduce(data)
    assert data.eq(world * (world + 1) / 2).all(), data
    backend = dist.distributed_c10d._get_default_group()._get_backend(device)
    print(f"<{type(backend).__name__} rank {rank} local {local_rank} gpu {gpu}>", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # README, Troubleshooting: one in sixty is aborted while Python winds down
""")
# Name, TORCH_DIST_USE_NCCL2, and the class that it makes.
LEGACY, NEW = "ProcessGroupNCCL", "ProcessGroupNCCL2"
CASES = [("nccl", None, NEW), ("nccl", "0", LEGACY), ("nccl", "1", NEW),
         ("nccl-legacy", None, LEGACY), ("nccl-legacy", "1", LEGACY), ("nccl2", "0", NEW)]
if not torch_versions.has("nccl2 by default"):
    CASES = [("nccl", None, LEGACY), ("nccl", "0", LEGACY)]
each_case = pytest.mark.parametrize("name, use_nccl2, expected", CASES)
both_numberings = pytest.mark.parametrize("virtual", [False, True], ids=["local", "virtual"])
# Both say that before they check anything else.
REFUSED = {
    NEW: "nccl2 requires at least one CUDA device",
    LEGACY: "ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
}


def start(cluster, name, workers, *arguments, command=None, use_nccl2=None):
    script = cluster.folder / "train.py"
    script.write_text(SCRIPT)
    environment = {"PYTHON_EXEC": sys.executable}
    if use_nccl2 is not None:
        environment["TORCH_DIST_USE_NCCL2"] = use_nccl2
    started = (["--no-python", *command, sys.executable, script] if command else [script])
    return cluster.agent("node-a", *arguments, workers=workers, command=[*started, name],
                         environment=environment)


def ranks_of(agent):
    """The class, the local rank and the GPU of each rank."""
    found = re.findall(r"<(\w+) rank (\d+) local (\d+) gpu (\S+)>", agent.out())
    assert [int(rank) for _, rank, _, _ in sorted(found, key=lambda one: int(one[1]))] == list(
        range(len(found)))
    return {int(rank): (kind, int(local), gpu) for kind, rank, local, gpu in found}


@pytest.fixture(autouse=True)
def nobody_chooses(monkeypatch):
    monkeypatch.delenv("TORCH_DIST_USE_NCCL2", raising=False)


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
@both_numberings
def test_the_script_itself_by_gloo(cluster, virtual, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    agent = start(cluster, "gloo", 2, *["--virtual-local-rank"] * virtual)
    ended_well(agent, LIMIT)
    assert ranks_of(agent) == {
        rank: ("ProcessGroupGloo", 0 if virtual else rank, str(rank) if virtual else "None")
        for rank in range(2)}


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
@each_case
def test_which_class_a_name_gets_is_seen_without_a_gpu(cluster, name, use_nccl2, expected):
    agent = start(cluster, name, 1, use_nccl2=use_nccl2)
    assert agent.wait(LIMIT) == 1
    assert REFUSED[expected] in agent.err()


@needs_gpu
@both_numberings
@each_case
def test_ranks_meet(cluster, name, use_nccl2, expected, virtual):
    """Each rank has a GPU of its own if there are several; otherwise two share one."""
    # A rank that must have its own GPU of a list cannot share it.
    workers, command = (1, []) if virtual and GPUS == 1 else placed([])
    agent = start(cluster, name, workers, *["--virtual-local-rank"] * virtual, command=command,
                  use_nccl2=use_nccl2)
    ended_well(agent, LIMIT)
    found = ranks_of(agent)
    print(found)
    assert [kind for kind, _, _ in found.values()] == [expected] * workers
    assert len({gpu for _, _, gpu in found.values()}) == GPUS
    if virtual or GPUS == 1:
        assert {local for _, local, _ in found.values()} == {0}


@needs_gpu
def test_one_rank_alone(cluster):
    agent = start(cluster, "nccl", 1)
    ended_well(agent, LIMIT)
    assert len(ranks_of(agent)) == 1


def all_reduce(cluster, workers, command=(), **more):
    return cluster.agent("node-a", workers=workers, environment={
        "PYTHON_EXEC": sys.executable, **more}, command=[
        *(["--no-python", *command, sys.executable] if command else []), ALL_REDUCE,
        "-b", "8", "-e", "64K", "-f", "16", "-n", "2"])


def check_table(agent):
    ended_well(agent, LIMIT)
    lines = re.findall(r"(\d+) B +[\d.]+ us +[\d.]+ GB/s (\d+) wrong", agent.out())
    assert lines == [("8", "0"), ("128", "0"), ("2048", "0"), ("32768", "0")], agent.out()


def test_the_examples_script_without_a_gpu(cluster):
    check_table(all_reduce(cluster, 2, CUDA_VISIBLE_DEVICES=""))


@needs_gpu
def test_the_examples_script_on_gpus(cluster):
    workers, command = placed([])
    check_table(all_reduce(cluster, workers, command))
