#!/usr/bin/env python3
"""The same program as main.cpp, with PyTorch's DistributedSampler; its output is identical.

With --backend the ranks join a process group first, as a training script does, and the sampler gets
its rank from it.
"""
import argparse
import os

import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def parse_arguments():
    parser = argparse.ArgumentParser(description="says which samples each rank gets of a data set")
    parser.add_argument("--rank", type=int, default=int(os.environ.get("RANK", -1)))
    parser.add_argument("--world-size", type=int, default=int(os.environ.get("WORLD_SIZE", -1)))
    parser.add_argument("--backend", choices=["gloo"], help="join a process group with it")
    parser.add_argument("--init-method", default="env://", help="tcp://IP:PORT of rank 0")
    given = parser.parse_args()
    if not 0 <= given.rank < given.world_size:
        parser.error("start it with ddprun or torchrun, or give --rank and --world-size")
    return given


class Walk:
    def __init__(self, given):
        self.rank, self.ranks = given.rank, given.world_size
        self.place = {"num_replicas": self.ranks, "rank": self.rank}
        if given.backend is not None:
            dist.init_process_group(given.backend, init_method=given.init_method, rank=given.rank,
                                    world_size=given.world_size)
            self.place = {}

    def sampler(self, length, **options):
        return DistributedSampler(range(length), **self.place, **{"shuffle": False, **options})

    def tell(self, what, indices):
        print(f"rank {self.rank} of {self.ranks} | {what:<32} {indices}", flush=True)

    def all(self):
        ranks, sampler, tell = self.ranks, self.sampler, self.tell
        tell("1 even", text(sampler(2 * ranks)))
        tell("2 padded with the first ones", text(sampler(2 * ranks + 1)))
        tell("3 the rest cut off", text(sampler(2 * ranks + 1, drop_last=True)))
        shuffled = sampler(3 * ranks, shuffle=True)
        tell("4 shuffled, epoch 0", text(shuffled))
        shuffled.set_epoch(1)
        tell("4 shuffled, epoch 1", text(shuffled))
        tell("4 without set_epoch, once more", text(sampler(3 * ranks, shuffle=True)))
        tell("5 another seed, epoch 0", text(sampler(3 * ranks, shuffle=True, seed=1)))
        tell("6 one sample for all", text(sampler(1)))
        loader = DataLoader(range(5 * ranks), batch_size=2, sampler=sampler(5 * ranks))
        tell("7 in batches of two", " ".join(text(batch.tolist()) for batch in loader))


def text(indices):
    return "[" + " ".join(str(index) for index in indices) + "]"


if __name__ == "__main__":
    walk = Walk(parse_arguments())
    walk.all()
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
