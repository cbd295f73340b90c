#!/usr/bin/env python3
"""Trains a small model with plain PyTorch. It resumes from its snapshot, and saves one if a batch
system sends SIGUSR1 because the time is nearly over. It imports nothing of ddprun."""
import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def save(path, step, model):
    """Replaces the old file only when the new one is complete."""
    part = f"{path}.part"
    torch.save({"step": step, "model": model.state_dict()}, part)
    os.replace(part, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="out", help="shared by all nodes")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--step-seconds", type=float, default=0.1)
    parser.add_argument("--every", type=int, default=20, help="steps between two snapshots")
    parser.add_argument("--rate", type=float, default=0.01)
    given = parser.parse_args()

    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs(given.folder, exist_ok=True)
    snapshot = os.path.join(given.folder, "snapshot.pt")

    torch.manual_seed(1)
    model = torch.nn.Linear(8, 1)
    first = 0
    if os.path.exists(snapshot):
        state = torch.load(snapshot)
        model.load_state_dict(state["model"])
        first = state["step"]
    if rank == 0:
        print(f"{dist.get_world_size()} ranks begin at step {first}", flush=True)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=given.rate)

    for step in range(first, given.steps):
        data = torch.randn(16, 8, generator=torch.Generator().manual_seed(step * 1000 + rank))
        loss = ((wrapped(data) - data.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(given.step_seconds)
        # The signal reaches the ranks at different times; let all stop after the same step.
        stop = torch.tensor([1.0 if asked else 0.0])
        dist.all_reduce(stop)
        if rank == 0 and (stop.item() > 0 or (step + 1) % given.every == 0):
            save(snapshot, step + 1, model)
        if stop.item() > 0:
            if rank == 0:
                print(f"saved step {step + 1}: the time is nearly over", flush=True)
            break
    else:
        if rank == 0:
            save(snapshot, given.steps, model)
            with open(os.path.join(given.folder, "finished"), "w") as file:
                file.write(f"{given.steps} steps\n")
            print(f"finished {given.steps} steps", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
