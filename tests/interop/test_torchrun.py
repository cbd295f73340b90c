"""Real torchrun agents that meet at ddprun-rendezvous instead of at a store of their own."""

import re
import sys
import textwrap

import store_client
from torchrun import start_ddprun

LIMIT = 240  # for a run, each of whose workers imports PyTorch, which takes seconds

SCRIPT = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        if sys.argv[1:] == [str(step), str(rank)] and not os.path.exists("lost"):
            open("lost", "w").close()
            os.kill(os.getpid(), 9)
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    weights = [None] * world
    dist.all_gather_object(weights, [round(p.sum().item(), 5) for p in model.parameters()])
    assert weights == weights[:1] * world, weights
    runs = [None] * world
    dist.all_gather_object(runs, os.environ["TORCHELASTIC_RUN_ID"])
    assert runs == runs[:1] * world, runs
    dist.barrier()
    print(f"<{runs[0]} {rank} of {world} done>", flush=True)
    dist.destroy_process_group()
    # Without Python's own end, where one worker in sixty dies: see examples/01_snapshot_resume.
    os._exit(0)
""")


def start(cluster, torchrun, port, run, nodes, *arguments, conf=None):
    script = cluster.folder / "train.py"
    script.write_text(SCRIPT)
    line = [
        "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-id={run}",
        f"--nnodes={nodes}", "--nproc-per-node=1", "--local-addr=127.0.0.1", "--max-restarts=3",
        *([f"--rdzv-conf={conf}"] if conf else []), script, *arguments,
    ]  # fmt: skip
    # Agents of torch 2.11 keep one store for all rounds unless they are told not to: restarted
    # workers would read the keys of the dead ones.
    settings = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                "PYTHON_EXEC": sys.executable}
    return torchrun.start(cluster, f"torchrun-{run}", line, settings)


def finished(agents, run):
    """Checks that all agents succeed, and that each rank of the run has done its work once."""
    codes = [agent.wait(LIMIT) for agent in agents]
    words = "".join(agent.out() + agent.err() for agent in agents)
    assert codes == [0] * len(agents), words
    done = re.findall(rf"<{run} (\d+) of {len(agents)} done>", words)
    assert sorted(done) == [str(rank) for rank in range(len(agents))], words
    return words


def test_ranks_within_roles_are_those_of_torchrun(cluster, torchrun):
    """Two nodes have one role, and one has another: all their workers get the same variables."""
    daemon = cluster.daemon()
    nodes = [("reader", 1), ("trainer", 2), ("trainer", 2)]
    names = ["ROLE_NAME", "LOCAL_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "WORLD_SIZE"]
    words = " ".join("$" + name for name in names)

    def told(start, run):
        line = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{daemon.port}",
                f"--rdzv-id={run}", "--nnodes=3", "--local-addr=127.0.0.1", "--no-python"]
        agents = [
            start(cluster, f"{run}-{number}",
                  [*line, f"--nproc-per-node={workers}", f"--role={role}",
                   "/bin/sh", "-c", f'echo "<{words}>"'])
            for number, (role, workers) in enumerate(nodes)
        ]  # fmt: skip
        assert [agent.wait(LIMIT) for agent in agents] == [0, 0, 0]
        return sorted(re.findall("<(.*)>", "".join(agent.out() for agent in agents)))

    expected = told(torchrun.start, "torchrun")
    assert len(expected) == 5
    assert told(start_ddprun, "ddprun") == expected


def test_a_lost_worker_is_restarted(cluster, torchrun):
    """Both agents could host the store, but find the daemon on the port and use it."""
    daemon = cluster.daemon()
    agents = [start(cluster, torchrun, daemon.port, "lossy", 2, "2", "1") for _ in range(2)]
    finished(agents, "lossy")
    assert (cluster.folder / "lost").exists()
    assert daemon.running()


def test_runs_of_different_ids_do_not_meet(cluster, torchrun):
    """Three agents and two, at the same time at one daemon, which are told not to host the
    store."""
    daemon = cluster.daemon()
    def agents(run, count):
        return [start(cluster, torchrun, daemon.port, run, count, conf="is_host=0")
                for _ in range(count)]

    three, two = agents("three", 3), agents("two", 2)
    finished(three, "three")
    finished(two, "two")
    keys = store_client.connect(daemon.port).list_keys()
    assert {"torch.rendezvous.two", "torch.rendezvous.three"} <= set(keys), keys
    # A run leaves a key behind that says that it is closed, so its name cannot be used again.
    late = start(cluster, torchrun, daemon.port, "two", 1, conf="is_host=0")
    assert late.wait(LIMIT) == 1
    assert "RendezvousClosedError" in late.err(), late.err()
