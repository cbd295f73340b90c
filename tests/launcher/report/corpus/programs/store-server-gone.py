# ranks=2 keep=1
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), 2, rank == 0)
if rank == 0:
    time.sleep(1)
    os._exit(1)
store.get("never set")
