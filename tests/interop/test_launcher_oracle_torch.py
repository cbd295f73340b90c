"""What PyTorch's own tests require of its launcher with scripts that import PyTorch, required of
ddprun; tests/README.md has the list."""

import json
import re
import sys
import textwrap

import pytest

from tests.support.cluster import BIN, Program
from tests.support.ports import free_port

LIMIT = 240  # every worker imports PyTorch


def start(cluster, name, script, *options, arguments=()):
    path = cluster.folder / "train.py"
    path.write_text(textwrap.dedent(script))
    return Program(cluster, name, [BIN / "ddprun", "--node-id", name, *options, path, *arguments],
                   environment={"PYTHON_EXEC": sys.executable})


SUM = """
    import os, sys, torch, torch.distributed as dist
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=world)
    one_hot = torch.nn.functional.one_hot(torch.tensor(rank), num_classes=world)
    dist.all_reduce(one_hot)
    assert dist.is_torchelastic_launched()
    print(f"{rank} of {world}: {one_hot.sum().item()}", flush=True)
    dist.destroy_process_group()
    os._exit(0)
"""


@pytest.mark.parametrize("method", ["tcp://localhost:{port}", "env://"])
def test_ranks_meet_by_either_method_at_the_master_that_was_typed(cluster, method):
    port = free_port()
    job = start(cluster, "here", SUM, "--run-path", "--nproc-per-node=2", "--master-addr=localhost",
                f"--master-port={port}", arguments=[method.format(port=port)])
    assert job.wait(LIMIT) == 0, job.err()
    assert sorted(re.findall(r"\d of 2: 2", job.out())) == ["0 of 2: 2", "1 of 2: 2"]


RECORD = """
    import sys
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        if sys.argv[1] == "raises":
            raise ValueError("the loss is NaN")
        sys.exit(int(sys.argv[1]))

    main()
"""


def test_an_exception_that_record_keeps_is_the_cause(cluster):
    job = start(cluster, "here", RECORD, "--redirects=3", f"--log-dir={cluster.folder}/logs",
                arguments=["raises"])
    assert job.wait(LIMIT) == 1
    told = job.err()
    assert re.search(r"exited with code 1: ValueError: the loss is NaN$", told, re.M), told
    assert re.search(r"\|   .*train.py:\d+ in main: raise ValueError", told), told
    [file] = (cluster.folder / "logs").glob("*/attempt_0/0/error.json")
    kept = json.loads(file.read_text())["message"]
    assert kept["message"] == "ValueError: the loss is NaN"
    assert kept["extraInfo"]["py_callstack"] and int(kept["extraInfo"]["timestamp"])


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_under_record_is_no_exception(cluster, code):
    job = start(cluster, "here", RECORD, f"--log-dir={cluster.folder}/logs", arguments=[str(code)])
    assert job.wait(LIMIT) == code, job.err()
    assert not list((cluster.folder / "logs").glob("*/attempt_0/0/error.json"))
    if code:
        assert re.search(rf"exited with code {code}$", job.err(), re.M), job.err()


RPC = """
    import os, torch.distributed.rpc as rpc
    role = os.environ["ROLE_NAME"]
    rpc.init_rpc(role, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    if role == "asks":
        print("the other has", rpc.rpc_sync("answers", os.getenv, args=("ROLE_NAME",)), flush=True)
    rpc.shutdown()
    os._exit(0)
"""


def test_nodes_of_two_roles_call_each_other(cluster):
    port = free_port()
    nodes = [start(cluster, role, RPC, f"--role={role}", "--nnodes=2", "--local-addr=127.0.0.1",
                   f"--rdzv-endpoint=127.0.0.1:{port}") for role in ("asks", "answers")]
    assert [node.wait(LIMIT) for node in nodes] == [0, 0], nodes[0].err() + nodes[1].err()
    assert "the other has answers" in nodes[0].out()
