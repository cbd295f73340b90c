"""The same sum in plain PyTorch, which does not depend on ddprun: torchrun can start it too.
Without a GPU it sums on the CPU, over Gloo."""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist


def size(text):
    """Parses a number of bytes, with an optional K, M or G (powers of 1024)."""
    power = " KMG".find(text[-1:].upper())
    return int(text[:-1]) * 1024**power if power > 0 else int(text)


def measure(data, iterations, synchronize):
    """Returns the seconds that one all_reduce takes."""
    for _ in range(5):
        dist.all_reduce(data)
    synchronize()
    begin = time.perf_counter()
    for _ in range(iterations):
        dist.all_reduce(data)
    synchronize()
    return (time.perf_counter() - begin) / iterations


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--minbytes", type=size, default=8)
    parser.add_argument("-e", "--maxbytes", type=size, default=128 << 20)
    parser.add_argument("-f", "--stepfactor", type=int, default=4)
    parser.add_argument("-n", "--iters", type=int, default=20)
    given = parser.parse_args()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        synchronize = torch.cuda.synchronize
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
        synchronize = dist.barrier
    rank, world_size = dist.get_rank(), dist.get_world_size()
    count = given.minbytes
    while count <= given.maxbytes:
        data = torch.full((count // 4,), float(rank), device=device)
        dist.all_reduce(data)
        wrong = int((data != world_size * (world_size - 1) / 2).sum())
        # Sum zeros, which stay zeros.
        seconds = measure(torch.zeros_like(data), given.iters, synchronize)
        if rank == 0:
            bandwidth = count / seconds / 1e9 * 2 * (world_size - 1) / world_size
            print(f"{count:12d} B {seconds * 1e6:10.1f} us {bandwidth:8.2f} GB/s {wrong} wrong",
                  flush=True)
        count *= given.stepfactor
    dist.destroy_process_group()
    # PyTorch may abort a worker that used Gloo while Python shuts down.
    sys.stdout.flush()
    os._exit(0)


main()
