"""Unmodified PyTorch scripts on gloo: they run, restart, finish, and end without noise."""

import sys
import textwrap

import pytest

from tests.support.ports import free_port

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

# What PyTorch writes for each worker and each second if its store has ended first.
STORMS = (
    "Broken pipe", "Connection reset", "Connection closed by peer", "Connection refused",
    "Connection was likely closed", "failed to recv", "failed to send", "recvValue", "recvVector",
    "sendBytes", "shut down too early", "Failed to check", "DistNetworkError", "DistStoreError",
)  # fmt: skip

# Each worker asks the store once more when all lower ranks are gone, because NCCL's watchdog asks
# it each second until the very end. A rank that holds the store itself, like rank 0, cannot outlive
# it.
SCRIPT = textwrap.dedent("""
    import os, time, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    store = dist.distributed_c10d._get_default_store()
    value = torch.ones(1) * (rank + 1)
    dist.all_reduce(value)
    print(f"attempt {attempt} rank {rank} sum {value.item():.0f}", flush=True)
    if attempt == 0 and rank == 1:
        os._exit(9)
    processes = [None] * world
    dist.all_gather_object(processes, os.getpid())
    dist.barrier()
    dist.destroy_process_group()
    if os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True":
        for process in processes[:rank]:
            while os.path.exists(f"/proc/{process}"):
                time.sleep(0.02)
        assert store.check(["exception_dump"]) is False
        store.set("last words", str(rank))
    print(f"attempt {attempt} rank {rank} ends", flush=True)
""")


def storms(text):
    """The lines that complain, except for those in which Gloo misses the peer that was lost."""
    return [line for line in text.splitlines()
            if "gloo/transport/" not in line and any(storm in line for storm in STORMS)]


def test_a_storm_is_noticed():
    line = "[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=4): failed to recv"
    assert storms(f"fine\n{line}\nfine") == [line]


@pytest.mark.parametrize("store", ["agent", "worker"])
def test_gloo_restarts_finishes_and_ends_quietly(cluster, tmp_path, store):
    """torchrun gets this restart wrong: its second attempt reads the first one's keys."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    daemon = cluster.daemon()
    agents = [
        cluster.agent(name, "--max-restarts", 2, "--store", store, nnodes=2, workers=workers,
                      endpoint=f"127.0.0.1:{daemon.port}", command=[script],
                      environment={"PYTHON_EXEC": sys.executable, "TORCH_CPP_LOG_LEVEL": "INFO"})
        for name, workers in (("node-a", 2), ("node-b", 1))
    ]
    codes = [agent.wait(180) for agent in agents]
    output = "".join(agent.out() + agent.err() for agent in agents)
    assert codes == [0, 0], output
    for rank in range(3):
        assert f"attempt 1 rank {rank} sum 6" in output, output
        assert f"attempt 1 rank {rank} ends" in output, output
    assert not storms(output), output
    cluster.nothing_left(but=[daemon])


TCP_SCRIPT = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=world)
    value = torch.ones(1)
    dist.all_reduce(value)
    agents = os.environ["TORCHELASTIC_USE_AGENT_STORE"]
    print(f"rank {rank} sum {value.item():.0f} agent's store {agents}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
""")
KNOWS_ITS_LAUNCHERS_STORE = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)


@pytest.mark.parametrize("address", ["own", "master", "master, another spelling"])
def test_a_script_that_is_told_a_tcp_address(cluster, tmp_path, address):
    """The store may be its own or the launcher's; in both cases the ranks meet."""
    script = tmp_path / "train.py"
    script.write_text(TCP_SCRIPT)
    port = free_port()
    host = "localhost" if "another" in address else "127.0.0.1"
    options = [] if address == "own" else ["--master-port", port]
    agent = cluster.agent("", *options, workers=2, command=[script, f"tcp://{host}:{port}"],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait(180) == 0, agent.out() + agent.err()
    kept = address != "own" or KNOWS_ITS_LAUNCHERS_STORE
    for rank in range(2):
        assert f"rank {rank} sum 2 agent's store {kept}" in agent.out(), agent.out() + agent.err()
    assert ("--store=worker" in agent.err()) == (not kept)
