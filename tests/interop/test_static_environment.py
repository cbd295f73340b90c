"""torchrun's static form on two nodes with different numbers of workers: what workers are given,
variable by variable, by torchrun and by ddprun with the same command line."""

import json
import sys
import textwrap

from torchrun import start_ddprun

from tests.support.ports import free_port

LIMIT = 240

SCRIPT = textwrap.dedent("""
    import json, os, sys
    names = ["RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE",
             "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR",
             "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
             "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
             "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"]
    facts = {name: os.environ.get(name) for name in names}
    facts["arguments"] = sys.argv[1:]
    with open(os.path.join(sys.argv[1], os.environ["RANK"]), "w") as to:
        json.dump(facts, to)
""")


def facts_of(cluster, start, name, *options, **variables):
    folder = cluster.folder / name
    folder.mkdir()
    script = folder / "facts.py"
    script.write_text(SCRIPT)
    port = free_port()
    agents = [
        start(cluster, f"{name}-{rank}",
              ["--nnodes=2", f"--node_rank={rank}", f"--nproc_per_node={workers}",
               "--master_addr=localhost", f"--master_port={port}", "--max-restarts=2",
               "--role=trainer", *options, script, folder, "local=${local_rank}"],
              {"PYTHON_EXEC": sys.executable, **variables})
        for rank, workers in ((0, 2), (1, 1))]
    assert [agent.wait(LIMIT) for agent in agents] == [0, 0], agents[0].err() + agents[1].err()
    found = [json.loads((folder / str(rank)).read_text()) for rank in range(3)]
    for facts in found:
        assert facts["MASTER_PORT"] == str(port)
        facts["MASTER_PORT"] = "as typed"
        assert facts["arguments"].pop(0) == str(folder)
    return found


def test_workers_are_given_what_torchrun_gives(cluster, torchrun):
    ours = facts_of(cluster, start_ddprun, "ddprun")
    theirs = facts_of(cluster, torchrun.start, "torchrun")
    assert ours == theirs


def test_each_worker_sees_the_gpu_that_torchrun_shows_it(cluster, torchrun):
    options = ["--virtual-local-rank"]
    variables = {"CUDA_VISIBLE_DEVICES": "4, 7,GPU-0a"}
    ours = facts_of(cluster, start_ddprun, "ddprun", *options, **variables)
    theirs = facts_of(cluster, torchrun.start, "torchrun", *options, **variables)
    assert [facts["CUDA_VISIBLE_DEVICES"] for facts in ours] == ["4", "7", "4"]
    assert [facts["arguments"] for facts in ours] == [["local=0"], ["local=1"], ["local=0"]]
    assert ours == theirs
