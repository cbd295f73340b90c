# ranks=2 keep=0 ACCELERATE_USE_CPU=true
import os
import sys

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model, optimizer = torch.nn.Linear(4, 1), None
model = accelerator.prepare(model)
for step in range(4):
    if accelerator.process_index == 1 and step == 2:
        os._exit(3)
    accelerator.backward(model(torch.ones(2, 4)).sum())
    accelerator.wait_for_everyone()
