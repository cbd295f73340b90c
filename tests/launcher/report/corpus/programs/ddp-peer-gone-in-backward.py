# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
for step in range(3):
    if rank == 1 and step == 2:
        os._exit(7)
    model(torch.ones(2, 4)).sum().backward()
