"""The same sum in plain PyTorch, which knows nothing of ddprun: torchrun starts it as well."""

import os
import time

import torch
import torch.distributed as dist


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    size = 8
    while size <= 128 << 20:
        data = torch.full((size // 4,), float(rank), device="cuda")
        dist.all_reduce(data)
        torch.cuda.synchronize()
        wrong = int((data != world_size * (world_size - 1) / 2).sum())
        begin = time.perf_counter()
        for _ in range(20):
            dist.all_reduce(data)
        torch.cuda.synchronize()
        seconds = (time.perf_counter() - begin) / 20
        if rank == 0:
            bandwidth = size / seconds / 1e9 * 2 * (world_size - 1) / world_size
            print(f"{size:12d} B {seconds * 1e6:10.1f} us {bandwidth:8.2f} GB/s {wrong} wrong",
                  flush=True)
        size *= 4
    dist.destroy_process_group()


main()
