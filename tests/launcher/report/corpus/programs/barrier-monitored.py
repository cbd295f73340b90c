# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
if rank == 0:
    dist.monitored_barrier(timeout=timedelta(seconds=1))
time.sleep(3)
os._exit(0)
