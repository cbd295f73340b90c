# ranks=1 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
os.environ["WORLD_SIZE"] = "2"
dist.init_process_group("gloo", timeout=timedelta(seconds=2))
