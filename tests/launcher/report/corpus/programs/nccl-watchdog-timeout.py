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
if rank == 0:
    dist.all_reduce(x)
    torch.cuda.synchronize()
time.sleep(40)
os._exit(0)
