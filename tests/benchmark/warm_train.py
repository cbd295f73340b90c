"""A DDP script on gloo that notes what it reaches and when: argv[1] is the file of notes, argv[2]
the number of rounds, argv[3] the pause between steps.

It does not depend on its launcher. A line of the notes: nanoseconds, what, rank, restart, process.
In each round except the last it trains until it is killed.
"""

import os
import sys
import time

pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.05
notes = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
rank, restart = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def note(what):
    os.write(notes, f"{time.time_ns()} {what} {rank} {restart} {os.getpid()}\n".encode())


note("main")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

note("imported")
torch.set_num_threads(1)
dist.init_process_group("gloo")
note("group")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
note("ddp")
steps = 0
while steps < 20 or restart + 1 < int(sys.argv[2]):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    steps += 1
    if steps == 1:
        note("step")
    if steps % 100 == 0:
        note("hundred")
    time.sleep(pause)
dist.destroy_process_group()
note("end")
