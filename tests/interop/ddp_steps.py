"""tests/support/ddp_steps.cpp in Python: the same steps, PyTorch's own DistributedDataParallel and
AveragedModel."""

import contextlib
import itertools
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

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
    "conv": {},
    "shared": {},
    "sparse": {},
    "mixed": {},
    "outputs": {},
    "outputs_unused": {"find_unused_parameters": True},
    "outputs_static": {"static_graph": True},
}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.middle = torch.nn.Linear(16, 16)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, values, uses_all):
        values = torch.relu(self.norm(self.first(values)))
        if uses_all:
            values = torch.relu(self.middle(values))
        return self.last(values), None


class Convolutional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.last = torch.nn.Linear(32, 4)

    def forward(self, values, uses_all):
        values = torch.relu(self.norm(self.first(values.reshape(-1, 1, 2, 4))))
        return self.last(values.flatten(1)), None


class Sharing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.again = self.first
        self.last = torch.nn.Linear(8, 4)

    def forward(self, values, uses_all):
        return self.last(torch.relu(self.again(torch.relu(self.first(values))))), None


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(101, 8, sparse=True)
        self.last = torch.nn.Linear(8, 4)

    def forward(self, values, uses_all):
        return self.last(self.table((values * 101).round().long()).mean(1)), None


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.last = torch.nn.Linear(16, 4).double()

    def forward(self, values, uses_all):
        return self.last(torch.relu(self.first(values)).double()), None


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.left = torch.nn.Linear(16, 4)
        self.right = torch.nn.Linear(16, 4)

    def forward(self, values, uses_all):
        values = torch.relu(self.first(values))
        return self.left(values), self.right(values) if uses_all else None


NETS = {"conv": Convolutional, "shared": Sharing, "sparse": Words, "mixed": Mixed,
        "outputs": TwoHeads}


def values_of(rank, step):
    return torch.tensor([[(row * 31 + column * 17 + rank * 13 + step * 7 + row * column) % 101
                          for column in range(8)] for row in range(BATCH)],
                        dtype=torch.float32) / 101.0


def labels_of(rank, step):
    return torch.tensor([(row + rank + step) % 4 for row in range(BATCH)])


def dense(tensor):
    return tensor.to_dense() if tensor.is_sparse else tensor


def train(way, rank, to):
    torch.manual_seed(5 + rank)
    net = NETS.get(way.split("_")[0], Net)()
    parallel = DistributedDataParallel(net, **WAYS[way])
    if way in ("fp16", "bf16"):
        parallel.register_comm_hook(None, getattr(default_hooks, f"{way}_compress_hook"))
    momentum = 0 if way == "sparse" else 0.9
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=momentum)
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    losses, gradients = [], []

    def one_pass(step):
        uses_all = way != "static"
        if WAYS[way].get("find_unused_parameters"):
            uses_all = (step + rank) % 2 == 0
        labels = labels_of(rank, step)
        first, second = parallel(values_of(rank, step), uses_all)
        loss = torch.nn.functional.cross_entropy(first, labels)
        if second is not None:
            loss = loss + torch.nn.functional.cross_entropy(second, labels)
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
            average.update_parameters(net)

    if way.startswith("uneven"):
        with parallel.join(divide_by_initial_world_size=way == "uneven"):
            run(5 * (dist.get_world_size() - rank if way == "uneven_own_buffers" else rank + 1))
    else:
        run(STEPS)
        gradients = [one.grad for one in net.parameters() if one.grad is not None]
    averages = [one for one in itertools.chain(average.module.parameters(),
                                               average.module.buffers())
                if one.is_floating_point()]
    for name, tensors in (("losses", losses), ("gradients", gradients),
                          ("parameters", net.parameters()), ("buffers", net.buffers()),
                          ("averages", averages)):
        figures = [f"{figure:.9g}" for tensor in tensors
                   for figure in dense(tensor).detach().float().flatten().tolist()]
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
# See examples/01_snapshot_resume/train.py: Gloo may abort Python while it shuts down.
os._exit(0)
