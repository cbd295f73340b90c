# gpus=1 ranks=2 keep=0 
import os, signal, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
os.environ["NCCL_HOSTID"] = f"host-{rank}"  # or NCCL would not let them share the GPU
dist.init_process_group("nccl", timeout=timedelta(seconds=8))
x = torch.ones(1 << 20, device="cuda:0")
dist.all_reduce(x)
torch.cuda.synchronize()
for step in range(100000):
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if rank == 1 and step == 20:
        os.kill(os.getpid(), signal.SIGKILL)
