"""Unmodified PyTorch scripts on gloo: they run, restart and finish."""

import sys
import textwrap

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed here")

SCRIPT = textwrap.dedent("""
    import os, sys, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    value = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(value)
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    print(f"attempt {attempt} rank {dist.get_rank()} sum {value.item():.0f}", flush=True)
    if attempt == 0 and dist.get_rank() == 1:
        os._exit(9)
    dist.barrier()
    dist.destroy_process_group()
""")


@pytest.mark.parametrize("store", ["agent", "worker"])
def test_gloo_restarts_and_finishes(cluster, tmp_path, store):
    """The restart that torchrun 2.11 gets wrong: its second attempt reads the first one's keys."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    daemon = cluster.daemon()
    agents = [
        cluster.agent(name, "--max-restarts", 2, "--store", store, nnodes=2, workers=2,
                      endpoint=f"127.0.0.1:{daemon.port}", command=[script],
                      environment={"PYTHON_EXEC": sys.executable})
        for name in ("node-a", "node-b")
    ]
    codes = [agent.wait(180) for agent in agents]
    output = "".join(agent.out() for agent in agents)
    assert codes == [0, 0], output
    for rank in range(4):
        assert f"attempt 1 rank {rank} sum 10" in output, output
    errors = "".join(agent.err() for agent in agents)
    assert "Broken pipe" not in errors, errors
    cluster.nothing_left(but=[daemon])
