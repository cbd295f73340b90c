# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
import atexit
import ctypes

dist.init_process_group("gloo")
if rank == 1:
    sys.exit(1)
atexit.register(ctypes.string_at, 0)
dist.all_reduce(torch.ones(1))
