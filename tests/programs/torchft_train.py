"""A rank of a replica group of torchft: argv[1] the name of the group, argv[2] a folder.

It notes each step that the group has committed (NAME.RANK.steps: restart, process, step,
participants, weights), kills itself in its first life once die.NAME is there if it is the last rank
of the group, and ends once end is there.
"""

import datetime
import os
import signal
import sys
import time

import torch
from torch.distributed import TCPStore
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

name, folder = sys.argv[1:]
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
patience = datetime.timedelta(seconds=120)  # a busy machine is not a dead replica
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                 timeout=patience)
notes = os.open(f"{folder}/{name}.{rank}.steps", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

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
last = looks = 0


def is_over():
    """By the word of rank 0: no rank of a group begins a step that the others do not take."""
    global looks
    looks += 1
    if rank == 0:
        store.set(f"test/{looks}", "end" if os.path.exists(f"{folder}/end") else "go on")
    return store.get(f"test/{looks}") == b"end"


while not is_over():
    optimizer.zero_grad()
    step = manager.current_step()
    parallel(torch.sin(torch.arange(8.0).reshape(2, 4) + step)).square().mean().backward()
    optimizer.step()
    if manager.current_step() != last:
        last = manager.current_step()
        weights = model.weight.detach().numpy().tobytes().hex()
        os.write(notes, f"{restart} {os.getpid()} {last} {manager.num_participants()} {weights}\n"
                 .encode())
    if restart == "0" and rank == ranks - 1 and os.path.exists(f"{folder}/die.{name}"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
# Rank 0 has the group's manager, and is the last to end.
if rank != 0:
    store.set(f"test/{rank} has ended", "")
for each in range(1, ranks) if rank == 0 else ():
    store.get(f"test/{each} has ended")
os._exit(0)  # the other group may be gone already, and nobody waits for it
