"""A replica group of torchft of one rank: argv[1] its name, argv[2] a folder.

It notes each step that it has committed (NAME.steps: restart, process, step, participants,
weights), kills itself in its first life once die.NAME is there, and ends once end is there.
"""

import datetime
import os
import signal
import sys
import time

import torch
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

name, folder = sys.argv[1:]
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
patience = datetime.timedelta(seconds=120)  # a busy machine is not a dead replica
notes = os.open(f"{folder}/{name}.steps", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

torch.manual_seed(int(restart))  # what is not healed from the other is seen
model = torch.nn.Linear(4, 1)


def load(state):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def save():
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


manager = Manager(pg=ProcessGroupGloo(timeout=patience), min_replica_size=1, load_state_dict=load,
                  state_dict=save, replica_id=name, hostname="127.0.0.1", timeout=patience,
                  quorum_timeout=patience, connect_timeout=patience)
parallel = DistributedDataParallel(manager, model)
optimizer = Optimizer(manager, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9))
last = 0
while not os.path.exists(f"{folder}/end"):
    optimizer.zero_grad()
    step = manager.current_step()
    parallel(torch.sin(torch.arange(8.0).reshape(2, 4) + step)).square().mean().backward()
    optimizer.step()
    if manager.current_step() != last:
        last = manager.current_step()
        weights = model.weight.detach().numpy().tobytes().hex()
        os.write(notes, f"{restart} {os.getpid()} {last} {manager.num_participants()} {weights}\n"
                 .encode())
    if restart == "0" and os.path.exists(f"{folder}/die.{name}"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
os._exit(0)  # the other may be gone already, and nobody waits for it
