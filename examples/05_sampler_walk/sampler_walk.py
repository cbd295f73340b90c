#!/usr/bin/env python3
"""The same as main.cpp, with PyTorch's DistributedSampler: line for line the same output."""
import os

from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def sampler(length, **options):
    return DistributedSampler(range(length), num_replicas=RANKS, rank=RANK,
                              **{"shuffle": False, **options})


def text(indices):
    return "[" + " ".join(str(index) for index in indices) + "]"


def tell(what, indices):
    print(f"rank {RANK} of {RANKS} | {what:<32} {indices}", flush=True)


def main():
    tell("1 even", text(sampler(2 * RANKS)))
    tell("2 padded with the first ones", text(sampler(2 * RANKS + 1)))
    tell("3 the rest cut off", text(sampler(2 * RANKS + 1, drop_last=True)))
    shuffled = sampler(3 * RANKS, shuffle=True)
    tell("4 shuffled, epoch 0", text(shuffled))
    shuffled.set_epoch(1)
    tell("4 shuffled, epoch 1", text(shuffled))
    tell("4 without set_epoch, once more", text(sampler(3 * RANKS, shuffle=True)))
    tell("5 another seed, epoch 0", text(sampler(3 * RANKS, shuffle=True, seed=1)))
    tell("6 one sample for all", text(sampler(1)))
    loader = DataLoader(range(5 * RANKS), batch_size=2, sampler=sampler(5 * RANKS))
    tell("7 in batches of two", " ".join(text(batch.tolist()) for batch in loader))


if __name__ == "__main__":
    main()
