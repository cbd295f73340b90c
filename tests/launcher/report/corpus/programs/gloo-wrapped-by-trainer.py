# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])


class TrainerError(Exception):
    pass


def step():
    dist.all_reduce(torch.ones(1))


dist.init_process_group("gloo")
if rank == 1:
    sys.exit(1)
try:
    step()
except RuntimeError as error:
    raise TrainerError("training failed in epoch 3") from error
