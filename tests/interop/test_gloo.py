"""Unmodified process groups on gloo, with our store in the place of the launcher's."""

import os
import subprocess
import sys

import pytest

WORKER = """
import sys, torch, torch.distributed as dist
rank, world = int(sys.argv[1]), int(sys.argv[2])
if sys.argv[3] == "env":
    dist.init_process_group("gloo")
else:
    dist.init_process_group("gloo", init_method=sys.argv[3], rank=rank, world_size=world)
for step in range(3):
    tensor = torch.full((1000,), float(dist.get_rank() + 1 + step))
    dist.all_reduce(tensor)
    assert tensor.eq(world * (world + 1) / 2 + step * world).all(), tensor
group = dist.new_group(list(range(world)))
dist.barrier(group)
gathered = [None] * world
dist.all_gather_object(gathered, dist.get_rank())
assert gathered == list(range(world)), gathered
dist.destroy_process_group()
print("done", rank)
"""


def run_group(port, world, method):
    workers = []
    for rank in range(world):
        environment = dict(
            os.environ,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            RANK=str(rank),
            WORLD_SIZE=str(world),
            TORCHELASTIC_USE_AGENT_STORE="True",
            TORCH_CPP_LOG_LEVEL="WARNING",
            OMP_NUM_THREADS="1",
        )
        workers.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(rank), str(world), method],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [worker.communicate(timeout=240)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for rank, (worker, output) in enumerate(zip(workers, outputs)):
        assert worker.returncode == 0, output
        assert f"done {rank}" in output
        assert "Broken pipe" not in output


@pytest.mark.parametrize("world", [2, 3])
def test_env_rendezvous(server, world):
    run_group(server.port, world, "env")


def test_tcp_rendezvous_of_the_master_port(server):
    # With USE_AGENT_STORE every rank of a tcp:// address is a client, rank 0 too.
    run_group(server.port, 2, f"tcp://127.0.0.1:{server.port}")


def test_two_rounds_on_one_port(server):
    """The second round finds no key of the first: its ranks would meet dead addresses there."""
    run_group(server.port, 2, "env")
    server.stdin.write("renew\n")
    server.stdin.flush()
    assert server.stdout.readline() == "renewed\n"
    run_group(server.port, 2, "env")
