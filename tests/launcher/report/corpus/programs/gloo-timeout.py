# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=timedelta(seconds=2))
if rank == 0:
    dist.all_reduce(torch.ones(1))
time.sleep(4)
os._exit(0)
