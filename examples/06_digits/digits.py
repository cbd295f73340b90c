#!/usr/bin/env python3
"""The same program as main.cpp, as a plain PyTorch script."""
import argparse
import math
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse_arguments():
    parser = argparse.ArgumentParser(description="trains a small network on 8x8 digits")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default=os.environ.get("DDPRUN_DIGITS") or ".cache/digits.csv")
    parser.add_argument("--init-method", default="env://", help="tcp://IP:PORT of rank 0")
    parser.add_argument("--rank", type=int, default=-1)
    parser.add_argument("--world-size", type=int, default=-1)
    return parser.parse_args()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.digit = nn.Linear(32 * 4 * 4, 10)

    def forward(self, images):
        values = functional.relu(self.first(images))
        values = functional.relu(self.second(values))
        values = functional.max_pool2d(values, 2)
        return functional.log_softmax(self.digit(values.flatten(1)), 1)


def read_digits(path):
    with open(path) as file:
        table = torch.tensor([[int(number) for number in line.split(",")] for line in file])
    images, labels = (table[:, :-1].float() / 16).reshape(-1, 1, 8, 8), table[:, -1]
    test = torch.arange(len(table)) % 5 == 0
    return TensorDataset(images[~test], labels[~test]), TensorDataset(images[test], labels[test])


def average_over_ranks(value_sum, count):
    both = torch.tensor([value_sum, count], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()


@torch.no_grad()
def test(network, pictures):
    images, labels = pictures[dist.get_rank()::dist.get_world_size()]
    right = (network(images).argmax(1) == labels).sum().item()
    return average_over_ranks(right, len(labels))


def main():
    given = parse_arguments()
    training, testing = read_digits(given.data)
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    dist.init_process_group("gloo", init_method=given.init_method, rank=given.rank,
                            world_size=given.world_size)
    rank = dist.get_rank()
    network = Network()
    parallel = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=given.learning_rate)
    sampler = DistributedSampler(training, seed=given.seed)
    loader = DataLoader(training, given.batch_size, sampler=sampler)
    for epoch in range(1, given.epochs + 1):
        sampler.set_epoch(epoch)
        loss_sum = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.nll_loss(parallel(images), labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
        norm = math.sqrt(sum(parameter.grad.square().sum().item()
                             for parameter in network.parameters()))
        print(f"rank {rank} | epoch {epoch} | loss {loss_sum / len(sampler):.4f} | "
              f"gradient norm {norm:.6f}", flush=True)
        loss = average_over_ranks(loss_sum, len(sampler))
        accuracy = test(network, testing)
        if rank == 0:
            print(f"all    | epoch {epoch} | loss {loss:.4f} | test accuracy {accuracy:.4f}",
                  flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # PyTorch 2.11 may abort a worker that used Gloo and DDP while Python shuts down.
    sys.stdout.flush()
    os._exit(0)
