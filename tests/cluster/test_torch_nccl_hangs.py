"""Hangs of PyTorch over NCCL on a real GPU, and what looks like a hang but is none."""

import sys
import textwrap

import pytest

from tests.support.gpus import first_gpu, visible_gpus
from tests.support.needs import needs
from tests.support.standing_script import line_of

pytestmark = pytest.mark.skipif(visible_gpus() == 0, reason="no NVIDIA GPU is visible")
LIMIT = 300  # PyTorch is imported; NCCL's own limit is ten minutes

# Two ranks; if there is only one GPU, they share it, each as if it were on a host of its own.
TRAINS = """
    import os
    import time

    rank = int(os.environ["RANK"])
    if {shares}:
        os.environ.update(NCCL_HOSTID=f"host-{{rank}}", CUDA_VISIBLE_DEVICES="{gpu}")
    import torch
    import torch.distributed as dist

    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    device = torch.device("cuda", 0 if {shares} else rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to(device))


    def forward(step):
        if attempt == 0 and step == 3:
            special()
        return model(torch.ones(8, 64, device=device)).sum()


    def stand():
        if rank == 1:
            time.sleep(3600)


    def evaluate():
        until = time.monotonic() + 20
        big = torch.ones(2048, 2048, device=device)
        while rank == 1 and time.monotonic() < until:
            for _ in range(50):
                big = (big @ big).clamp(0, 1)
            big.sum().item()
        dist.barrier()


    def send_and_receive():
        value = torch.zeros(1024, device=device)
        until = time.monotonic() + 20
        while value[0].item() >= 0:
            value.fill_(-1 if rank == 0 and time.monotonic() > until else 1)
            (dist.send if rank == 0 else dist.recv)(value, 1 - rank)


    special = {special}
    for step in range(6):
        loss = forward(step)
        loss.backward()
        loss.item()
    print(f"attempt {{attempt}} has ended well", flush=True)
    dist.destroy_process_group()
"""


def start(cluster, tmp_path, special):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAINS).format(shares=visible_gpus() == 1, gpu=first_gpu(),
                                                     special=special))
    return script, cluster.agent("node", "--max-restarts", 1, "--max-quick-failures", 0,
                                 "--hang-timeout", 8, workers=2, command=[script],
                                 environment={"PYTHON_EXEC": sys.executable})


def test_a_rank_that_does_not_come_to_an_nccl_collective_is_named(cluster, tmp_path):
    needs("torch", "PyTorch is not installed here")
    script, agent = start(cluster, tmp_path, "stand")
    assert agent.wait(LIMIT) == 0, agent.err()
    assert "rank 1 (local rank 1) hung: no rank of this node has moved for" in agent.err()
    assert f"rank 1 stood in stand (train.py:{line_of(script, 'sleep(3600)')})" in agent.err()
    assert " while rank 0 waited " in agent.err()
    assert agent.out().count("attempt 1 has ended well") == 2
    cluster.nothing_left()


@pytest.mark.parametrize("work", ["evaluate", "send_and_receive"])
def test_what_nccl_does_not_count_is_no_hang(cluster, tmp_path, work):
    """It takes longer than the limit: one rank evaluates on its GPU while the other waits in a
    barrier, or both send and receive, and launch no collective."""
    needs("torch", "PyTorch is not installed here")
    _, agent = start(cluster, tmp_path, work)
    assert agent.wait(LIMIT) == 0, agent.err()
    assert "has moved" not in agent.err()
    assert agent.out().count("attempt 0 has ended well") == 2
    cluster.nothing_left()
