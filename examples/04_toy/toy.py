#!/usr/bin/env python3
"""The same program as main.cpp, as a plain PyTorch script."""
import argparse

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description="sums and sends small tensors over all ranks")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world-size", type=int)
    parser.add_argument("--ip")
    parser.add_argument("--port", type=int)
    given = parser.parse_args()
    if given.rank is None:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method=f"tcp://{given.ip}:{given.port}",
                                rank=given.rank, world_size=given.world_size)
    rank, world_size = dist.get_rank(), dist.get_world_size()

    def tell(what, before, after):
        print(f"rank {rank} of {world_size}: {what} {before} -> {after.tolist()}", flush=True)

    tensor = torch.full((3,), rank + 1)
    before = tensor.tolist()
    dist.all_reduce(tensor)
    tell("all_reduce", before, tensor)

    tensor = torch.arange(3) + 10 * rank
    before = tensor.tolist()
    dist.broadcast(tensor, src=world_size - 1)
    tell("broadcast from the last", before, tensor)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
