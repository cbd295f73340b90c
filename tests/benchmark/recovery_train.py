"""A small DDP job that notes what it does and when: argv[1] is the file of notes, argv[2] the
number of epochs.

It does not depend on its launcher. A line of the notes: nanoseconds, what, rank, world size, epoch.
"""

import os
import sys
import time

notes = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def note(what, epoch=0):
    os.write(notes, f"{time.time_ns()} {what} {rank} {world} {epoch}\n".encode())


note("start")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

note("imported")
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
snapshot = sys.argv[1] + ".snapshot"
first = int(open(snapshot).read()) if os.path.exists(snapshot) else 0
for epoch in range(first, int(sys.argv[2])):
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
    if rank == 0:
        with open(snapshot + ".new", "w") as file:
            file.write(str(epoch + 1))
        os.replace(snapshot + ".new", snapshot)
    dist.barrier()
    note("epoch", epoch)
dist.destroy_process_group()
note("end")
os._exit(0)
