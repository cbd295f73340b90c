# ranks=2 keep=0
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.used(x)


dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(Two())
for step in range(2):
    model(torch.ones(2, 4)).sum().backward()
