# gpus=1 ranks=2 keep=1
import os, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("nccl", timeout=timedelta(seconds=5))
torch.cuda.set_device(0)
if rank == 1:
    dist.barrier()
time.sleep(12)
os._exit(0)
