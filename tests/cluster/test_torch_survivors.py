"""`ddprun.survive`: after a failure the other workers keep their process, model and optimizer, and
give the state to the one that is started."""

import re
import sys
import textwrap

import pytest

from tests.cluster.test_survivors import started
from tests.support.cluster import ROOT, wait_for
from tests.support.ports import free_port
from tests.support.spares import spares_wait
from tests.support.warm_agent import ahead

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

# The script of launcher/survivors/README.md, with a death in step 8, on data that depends only on
# step and rank.
SCRIPT = textwrap.dedent(f"""
    import sys
    is_warm = {ahead("torch")}
""") + textwrap.dedent("""
    import os, signal, time
    import torch
    import torch.distributed as dist
    sys.path.insert(0, sys.argv[1])
    import ddprun

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = lives = 0


    def share_state():
        global step
        steps = [None] * dist.get_world_size()
        dist.all_gather_object(steps, step)
        state = [model.state_dict(), optimizer.state_dict(), step]
        dist.broadcast_object_list(state, src=steps.index(max(steps)))
        model.load_state_dict(state[0])
        optimizer.load_state_dict(state[1])
        step = state[2]


    def train():
        global step, lives
        lives += 1
        dist.init_process_group("gloo")
        rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        share_state()
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        while step < 16:
            if sys.argv[2:3] == [str(rank)] and step == 8 and attempt == 0:
                print("the one that dies is in step 8", flush=True)
                while not all(map(os.path.exists, sys.argv[3:])):
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            data = torch.sin(torch.arange(8.0).reshape(2, 4) + step + rank)
            optimizer.zero_grad()
            (ddp(data) - data.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
            step += 1
        values = " ".join(f"{value:.5f}" for value in model.weight.flatten().tolist())
        print(f"rank {rank} was started", "warm" if is_warm else "cold")
        print(f"rank {rank} lived {lives} rounds, began in {begun}: {values}", flush=True)
        dist.destroy_process_group()


    begun = os.environ["DDPRUN_ROUND"]
    ddprun.survive(train)
""")


def ends(cluster, tmp_path, *words, nodes=("a",), workers=3, options=("--survivors", "on"),
         then=None, text=SCRIPT):
    """What each rank prints at the end: its rounds, its first round, its weights."""
    script = tmp_path / "train.py"
    script.write_text(text)
    agents = started(cluster, *nodes, nnodes=len(nodes), workers=workers,
                     endpoint=f"127.0.0.1:{free_port()}",
                     arguments=["--max-restarts", 2, *options],
                     command=[script, ROOT / ".cmake/package/wheel", *words],
                     environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1",
                                  "XDG_CACHE_HOME": str(tmp_path / "cache")})
    if then:
        then(agents[0])
    assert [agent.wait() for agent in agents] == [0] * len(nodes), agents[0].err()
    found = re.findall(r"rank (\d) lived (\d) rounds, began in (\d): (.*)",
                       "".join(agent.out() for agent in agents))
    return {int(rank): (int(lives), int(begun), list(map(float, weights.split())))
            for rank, lives, begun, weights in found}, agents


def undisturbed(ranks, later=None):
    """The weights of that script if no rank dies, computed in this process in the same way. From
    the step in which one of them dies on there may be fewer ranks, or more."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(16):
        ranks = later or ranks if step == 8 else ranks
        optimizer.zero_grad()
        for rank in range(ranks):
            data = torch.sin(torch.arange(8.0).reshape(2, 4) + step + rank)
            loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
            (loss / ranks).backward()
        optimizer.step()
    return model.weight.flatten().tolist()


@pytest.mark.parametrize("nodes, dead", [
    (("a",), 0), (("a", "b"), 1),
    *(pytest.param(*values, marks=pytest.mark.slow) for values in ((("a",), 1), (("a", "b"), 0)))])
def test_nothing_of_the_others_is_lost(cluster, tmp_path, nodes, dead):
    workers = 3 if len(nodes) == 1 else 2
    found, _ = ends(cluster, tmp_path, dead, nodes=nodes, workers=workers)
    assert sorted(found) == list(range(workers * len(nodes)))
    for rank, (lives, begun, _) in found.items():
        assert (lives, begun) == ((1, 2) if rank == dead else (2, 1)), found
    expected = pytest.approx(undisturbed(workers * len(nodes)), abs=1e-3)
    for _, _, weights in found.values():
        assert weights == expected


def dies_when_spares_wait(file):
    """Has the rank that waits for this file die once each worker has a spare with torch."""
    def die(agent):
        wait_for("step 8", lambda: "is in step 8" in agent.out())
        spares_wait(agent, 3)
        file.touch()

    return die


@pytest.mark.slow
def test_the_expected_weights_are_those_of_an_undisturbed_run(cluster, tmp_path):
    found, _ = ends(cluster, tmp_path, options=())
    assert sorted(found) == [0, 1, 2]
    for _, _, weights in found.values():
        assert weights == pytest.approx(undisturbed(3), abs=1e-3)


def test_a_spare_takes_the_place_of_the_one_that_has_died(cluster, tmp_path):
    """The others live on."""
    found, agents = ends(cluster, tmp_path, 1, tmp_path / "die",
                         then=dies_when_spares_wait(tmp_path / "die"),
                         options=("--survivors", "on", "--warm", "auto"))
    assert {rank: lives for rank, (lives, _, _) in found.items()} == {0: 2, 1: 1, 2: 2}
    assert "2 of 3 workers of this node lived on from the round before" in agents[0].err()
    assert dict(re.findall(r"rank (\d) was started (\w+)", agents[0].out())) == \
        {"0": "cold", "1": "warm", "2": "cold"}, agents[0].err()


def test_without_the_option_all_are_started_again(cluster, tmp_path):
    found, agents = ends(cluster, tmp_path, 1, workers=2, options=())
    assert {(lives, begun) for lives, begun, _ in found.values()} == {(1, 2)}
    assert "lived on" not in agents[0].err()


# Nothing from the worker that was started for the second round reaches the others' groups.
AGAIN = textwrap.dedent("""
    import os, signal, sys, time
    from pathlib import Path
    import torch
    import torch.distributed as dist
    sys.path.insert(0, sys.argv[1])
    import ddprun

    folder, begun, lives = Path(os.environ["DDPRUN_TEST_CONTROL"]), os.environ["DDPRUN_ROUND"], 0


    def die():
        os.kill(os.getpid(), signal.SIGKILL)


    def train():
        global lives
        lives += 1
        attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        if attempt == 1 and lives == 1:
            while not (folder / "die").exists():
                time.sleep(0.01)
            die()
        dist.init_process_group(sys.argv[2] or None)
        if attempt == 0 and dist.get_rank() == 0:
            die()
        value = torch.ones(1)
        dist.all_reduce(value)
        print(f"rank {dist.get_rank()} lived {lives} rounds, began in {begun}: {value.item():.0f}",
              flush=True)
        dist.destroy_process_group()


    ddprun.survive(train)
""")


@pytest.mark.parametrize("backend", ["gloo", ""])
def test_a_round_that_ends_as_its_group_is_made_is_left_too(cluster, tmp_path, backend):
    """The others wait at the round's store for a key that the dead one would have set."""
    script = tmp_path / "train.py"
    script.write_text(AGAIN)
    # They have long to leave, because the machine may be slow; and what they wait for never comes.
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 2, "--max-quick-failures", 0,
                          workers=3, conf="backoff_max=0,stop_grace=60",
                          command=[script, ROOT / ".cmake/package/wheel", backend],
                          environment={"PYTHON_EXEC": sys.executable})
    agent.says("2 of 3 workers of this node lived on from the round before")
    (cluster.folder / "die").touch()
    assert agent.wait() == 0, agent.err()
    ends = re.findall(r"rank (\d) lived (\d) rounds, began in (\d): 3\n", agent.out())
    assert sorted(ends) == [("0", "1", "3"), ("1", "3", "1"), ("2", "3", "1")]


# Rank 0 waits for rank 2, which neither arrives nor ends, and does not live on: only rank 0's own
# process can end that wait.
APART = textwrap.dedent("""
    import os, signal, sys, time
    from pathlib import Path
    import torch
    import torch.distributed as dist
    sys.path.insert(0, sys.argv[1])
    import ddprun

    folder, begun, lives = Path(os.environ["DDPRUN_TEST_CONTROL"]), os.environ["DDPRUN_ROUND"], 0


    def wait_for(name):
        while not (folder / name).exists():
            time.sleep(0.01)


    def train():
        global lives
        lives += 1
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        group = dist.new_group([0, 2])
        dist.barrier()
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            if rank == 0:
                (folder / "waits").touch()
                dist.all_reduce(torch.ones(1), group=group)
            if rank == 1:
                wait_for("waits")
                os.kill(os.getpid(), signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            wait_for("go")
            os._exit(0)
        dist.barrier()
        print(f"rank {rank} lived {lives} rounds, began in {begun}", flush=True)
        dist.destroy_process_group()


    if begun == "1" and os.environ["RANK"] == "2":
        train()
    ddprun.survive(train)
""")


def test_one_that_waits_for_a_rank_that_lives_leaves_too(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(APART)
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 1, workers=3,
                          conf="backoff_max=0,stop_grace=120",
                          command=[script, ROOT / ".cmake/package/wheel"],
                          environment={"PYTHON_EXEC": sys.executable})
    agent.says("ddprun: this worker leaves its round and lives on")
    (cluster.folder / "go").touch()
    assert agent.wait() == 0, agent.err()
    ends = re.findall(r"rank (\d) lived (\d) rounds, began in (\d)", agent.out())
    assert sorted(ends) == [("0", "2", "1"), ("1", "1", "2"), ("2", "1", "2")]


def test_an_error_of_the_scripts_own_is_its_failure(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(f"""
        import os, sys
        sys.path.insert(0, {str(ROOT / ".cmake/package/wheel")!r})
        import ddprun
        def train():
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                raise ValueError("no such file")
            return "done"
        print(ddprun.survive(train))
    """))
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 1, command=[script],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait() == 0, agent.err()
    assert "ValueError: no such file" in agent.err() and agent.out() == "done\n"
