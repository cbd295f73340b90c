# ranks=2 keep=1
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
layers = [torch.nn.Linear(4, 4) for _ in range(1 + rank)]
torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
