"""tests/support/ddp_steps.cpp in Python: the same steps, PyTorch's own DistributedDataParallel."""

import contextlib
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 20, 6
WAYS = {
    "plain": {},
    "bucket_view": {"gradient_as_bucket_view": True, "bucket_cap_mb": 1 / 1024},
    "accumulate": {},
    "unused": {"find_unused_parameters": True},
    "static": {"static_graph": True},
    "fp16": {},
    "bf16": {},
    "uneven": {},
    "uneven_unused": {"find_unused_parameters": True},
    "uneven_own_buffers": {"broadcast_buffers": False},
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.middle = torch.nn.Linear(16, 16)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, values, uses_middle):
        values = torch.relu(self.norm(self.first(values)))
        if uses_middle:
            values = torch.relu(self.middle(values))
        return self.last(values)


def values_of(rank, step):
    return torch.tensor([[(row * 31 + column * 17 + rank * 13 + step * 7 + row * column) % 101
                          for column in range(8)] for row in range(BATCH)],
                        dtype=torch.float32) / 101.0


def labels_of(rank, step):
    return torch.tensor([(row + rank + step) % 4 for row in range(BATCH)])


def train(way, rank, to):
    torch.manual_seed(5 + rank)
    net = Net()
    parallel = DistributedDataParallel(net, **WAYS[way])
    if way in ("fp16", "bf16"):
        parallel.register_comm_hook(None, getattr(default_hooks, f"{way}_compress_hook"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses, gradients = [], []

    def one_pass(step):
        uses_middle = way != "static"
        if WAYS[way].get("find_unused_parameters"):
            uses_middle = (step + rank) % 2 == 0
        loss = torch.nn.functional.cross_entropy(
            parallel(values_of(rank, step), uses_middle), labels_of(rank, step))
        loss.backward()
        return loss

    def run(count):
        for step in range(count):
            parallel.zero_grad(set_to_none=False)
            if way == "accumulate":
                with parallel.no_sync():
                    one_pass(1000 + step)
            losses.append(one_pass(step))
            optimizer.step()

    if way.startswith("uneven"):
        with parallel.join(divide_by_initial_world_size=way == "uneven"):
            run(5 * (dist.get_world_size() - rank if way == "uneven_own_buffers" else rank + 1))
    else:
        run(STEPS)
        gradients = [one.grad for one in net.parameters() if one.grad is not None]
    for name, tensors in (("losses", losses), ("gradients", gradients),
                          ("parameters", net.parameters()), ("buffers", net.buffers())):
        figures = [f"{figure:.9g}" for tensor in tensors
                   for figure in tensor.detach().float().flatten().tolist()]
        print(way, name, *figures, file=to)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with contextlib.closing(open(Path(sys.argv[1]) / str(dist.get_rank()), "w")) as to:
        for way in WAYS:
            train(way, dist.get_rank(), to)
    dist.barrier()
    dist.destroy_process_group()


main()
# See examples/01_snapshot_resume/train.py: while Python winds down, Gloo may abort it.
os._exit(0)
