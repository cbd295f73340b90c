# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
import logging

log = logging.getLogger("train")
logging.basicConfig(level=logging.INFO)


def average():
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError:
        log.exception("no average of the validation loss; it is the local one")


dist.init_process_group("gloo")
if rank == 1:
    sys.exit(1)
average()
for step in range(30):
    log.info("step %d: loss %.3f", step, 1 / (step + 1))
log.error("the budget of samples is used up")
sys.exit(5)
