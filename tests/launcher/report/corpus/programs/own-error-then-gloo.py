# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
if rank == 1:
    time.sleep(1)
    sys.exit(1)
try:
    raise KeyError("labels")
finally:
    time.sleep(2)
    dist.all_reduce(torch.ones(1))
