# ranks=1 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 1, True)
store.wait(["epoch/3/rank/1"], timedelta(seconds=1))
