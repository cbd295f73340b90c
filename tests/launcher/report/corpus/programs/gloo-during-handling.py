# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
if rank == 1:
    sys.exit(1)
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError:
    open("/home/user/job/emergency.ckpt", "wb")
