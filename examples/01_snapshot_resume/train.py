#!/usr/bin/env python3
"""The same job as main.cpp, as a script on plain PyTorch; runs under ddprun and torchrun alike.

Trains on all ranks, saves a snapshot every few epochs, and goes on from the newest one when it is
started again. Nothing of ddprun is imported.
"""
import argparse
import os
import sys
import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

TEST_EVERY = 5  # every fifth picture is kept for the test


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("epochs", nargs="?", type=int, default=50, help="epochs in all (50)")
    parser.add_argument("snapshot_interval", nargs="?", type=int, default=10,
                        help="epochs between two snapshots (10)")
    parser.add_argument("--data", default=os.environ.get("DDPRUN_DIGITS") or ".cache/digits.csv",
                        help="the digits ($DDPRUN_DIGITS, else .cache/digits.csv)")
    parser.add_argument("--snapshot-dir", default="snapshots",
                        help="where the snapshot is kept; the same for all nodes (snapshots)")
    parser.add_argument("--batch-size", type=int, default=64,
                        help="samples of each rank in a step (64)")
    parser.add_argument("--seed", type=int, default=0,
                        help="decides the first weights and every shuffle (0)")
    return parser.parse_args()


def read_digits(path):
    """Pictures of 8x8 pixels and their digits: (train, test)."""
    try:
        with open(path) as file:
            rows = [[int(number) for number in line.split(",")] for line in file]
    except OSError as error:
        sys.exit(f"train.py: cannot read the digits {path}: {error.strerror}; ./tests/setup makes "
                 ".cache/digits.csv, --data or DDPRUN_DIGITS says where it is")
    except ValueError as error:
        sys.exit(f"train.py: {path}: {error}; ./tests/setup makes the file anew")
    table = torch.tensor(rows)
    images = (table[:, :-1].float() / 16).reshape(-1, 1, 8, 8)
    labels = table[:, -1]
    test = torch.arange(len(rows)) % TEST_EVERY == 0
    return TensorDataset(images[~test], labels[~test]), TensorDataset(images[test], labels[test])


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


def save(path, epoch, network, optimizer):
    """A snapshot is whole or not there: a temporary file, synced, then renamed."""
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        torch.save({"epoch": epoch, "network": network.state_dict(),
                    "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    print(f"epoch {epoch} | snapshot saved at {path}", flush=True)


def resume(path, network, optimizer, epochs):
    """Loads rank 0's snapshot on every rank, and returns the number of epochs that are done."""
    found = [None]
    if dist.get_rank() == 0:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            found = [torch.load(path, weights_only=True)]
            if found[0]["epoch"] >= epochs:
                print(f"snapshot {path}: all {epochs} epochs are done", flush=True)
            else:
                print(f"resuming from snapshot {path} at epoch {found[0]['epoch'] + 1}", flush=True)
        else:
            print(f"no snapshot at {path}: starting at epoch 1", flush=True)
    dist.broadcast_object_list(found, src=0)
    if found[0] is None:
        return 0
    network.load_state_dict(found[0]["network"])
    optimizer.load_state_dict(found[0]["optimizer"])
    return found[0]["epoch"]


def train(arguments, network, optimizer, pictures, path, epochs_done):
    rank = dist.get_rank()
    parallel = DistributedDataParallel(network)
    # The first backward pass of a process decides in which order gradients are summed. Run one for
    # nothing, so that a resumed run sums as it would have without the interruption.
    functional.nll_loss(parallel(torch.zeros(1, 1, 8, 8)), torch.zeros(1).long()).backward()
    sampler = DistributedSampler(pictures, seed=arguments.seed)
    loader = DataLoader(pictures, arguments.batch_size, sampler=sampler)
    for epoch in range(epochs_done + 1, arguments.epochs + 1):
        sampler.set_epoch(epoch)
        loss_sum = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.nll_loss(parallel(images), labels)
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(labels)
        print(f"[rank {rank}] epoch {epoch} | loss {loss_sum / len(sampler):.4f} | "
              f"{len(sampler)} samples", flush=True)
        if rank == 0 and (epoch % arguments.snapshot_interval == 0 or epoch == arguments.epochs):
            save(path, epoch, network, optimizer)


def test(network, pictures):
    """Every rank looks at its share of the pictures; none is looked at twice."""
    images, labels = pictures[dist.get_rank()::dist.get_world_size()]
    with torch.no_grad():
        right = (network(images).argmax(1) == labels).sum()
    dist.all_reduce(right)
    if dist.get_rank() == 0:
        checksum = 0
        for parameter in network.parameters():
            checksum = zlib.crc32(parameter.detach().numpy().tobytes(), checksum)
        print(f"model checksum {checksum:08x}")
        print(f"accuracy {right.item() / len(pictures):.4f} "
              f"({right.item()} of {len(pictures)} test pictures)", flush=True)


def main():
    arguments = parse_arguments()
    training, testing = read_digits(arguments.data)
    path = os.path.join(os.path.abspath(arguments.snapshot_dir), "snapshot.pt")
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    dist.init_process_group("gloo")
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    epochs_done = resume(path, network, optimizer, arguments.epochs)
    train(arguments, network, optimizer, training, path, epochs_done)
    test(network, testing)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # DistributedDataParallel of PyTorch 2.11 keeps Gloo's threads alive, and one worker in sixty is
    # aborted by them while Python winds down ("terminate called without an active exception").
    # All is written and synced by now, so leave without that.
    sys.stdout.flush()
    os._exit(0)
