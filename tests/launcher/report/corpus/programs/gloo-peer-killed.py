# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
dist.barrier()
if rank == 1:
    os.kill(os.getpid(), 9)
for step in range(1000):
    dist.all_reduce(torch.ones(1))
