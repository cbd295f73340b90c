"""`ddprun.init_process_group`: those that live on keep their process group, which is connected to
the ranks of the new round; the one that is started comes into it."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

from tests.cluster.test_torch_survivors import (
    AGAIN, SCRIPT, dies_when_spares_wait, ends, undisturbed,
)
from tests.support.cluster import NONE_IS_LOST, ROOT

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
torch_distributed = pytest.importorskip("torch.distributed")
typing_extensions = pytest.importorskip("typing_extensions")
needs_reconfigure = pytest.mark.skipif(
    not hasattr(torch_distributed, "_reconfigure"),
    reason=f"PyTorch {torch.__version__} cannot connect a group anew: 2.14 can")

PACKAGE = ROOT / ".cmake/package/wheel"
CHECK = textwrap.dedent("""
    import io
    import json

    held = None


    # What is looked at where a rank hangs is of this round, and alike on all ranks.
    def check_record():
        record = json.loads(torch._C._distributed_c10d._dump_fr_trace_json())
        calls = [(int(one["collective_seq_id"]), str(one["pg_id"])) for one in record["entries"]]
        assert [number for number, _ in calls] == [1], record
        assert int(record["pg_status"][calls[0][1]]["last_enqueued_collective"]) == 1, record


    # PyTorch writes the rank before the lines of an error that nothing catches.
    def check_traceback(rank):
        stderr, sys.stderr = sys.stderr, io.StringIO()
        sys.excepthook(ValueError, ValueError("odd"), None)
        text, sys.stderr = sys.stderr.getvalue(), stderr
        assert text.startswith(f"[rank{rank}]: ") and text.endswith("ValueError: odd\\n"), text


    def check_group():
        global held
        # PyTorch 2.14 keeps the calls of earlier rounds, before those of this one. A group that is
        # made, and not connected, has recorded no call yet.
        if hasattr(torch._C._distributed_c10d, "_reset_fr_trace") and hasattr(dist, "_reconfigure"):
            check_record()
        rank, world_size = dist.get_rank(), dist.get_world_size()
        what = "the group of before" if held is dist.group.WORLD else "a new one"
        print(f"rank {rank} has {what} in round", os.environ["DDPRUN_ROUND"], flush=True)
        held = dist.group.WORLD
        assert [str(rank), str(world_size)] == [os.environ[name] for name in ("RANK", "WORLD_SIZE")]
        assert dist.get_process_group_ranks(held) == list(range(world_size))
        check_traceback(rank)
        # Those that are made in the round have the same name on all ranks, and its store.
        for _ in range(2):
            ends = dist.new_group([0, world_size - 1])
        if rank in (0, world_size - 1):
            value = torch.ones(1)
            dist.all_reduce(value, group=ends)
            assert value.item() == 2


""")


def keeping(text, arguments='"gloo"'):
    """That script, with the group that is kept, and which says whether it was. Its rank dies in the
    first round, also where no restart was counted since."""
    made = re.search(r'( +)dist.init_process_group\(.*\)\n', text)
    kept = f"{made.group(1)}ddprun.init_process_group({arguments})\n{made.group(1)}check_group()\n"
    for old, new in ((made.group(), kept), ("def train():", f"{CHECK}def train():"),
                     (" and attempt == 0", ' and os.environ["DDPRUN_ROUND"] == "1"')):
        text = text.replace(old, new)
    return text


def groups_of(agents):
    """By round and rank: whether it had the group of the round before."""
    said = re.findall(r"rank (\d) has (the group of before|a new one) in round (\d)",
                      "".join(agent.out() for agent in agents))
    return {(int(number), int(rank)): what == "the group of before" for rank, what, number in said}


@needs_reconfigure
@pytest.mark.parametrize("workers, dead", [(2, 1), (3, 0)])
def test_the_group_of_the_others_lives_on(cluster, tmp_path, workers, dead):
    found, agents = ends(cluster, tmp_path, dead, workers=workers, text=keeping(SCRIPT))
    everyone = range(workers)
    assert groups_of(agents) == {**{(1, rank): False for rank in everyone},
                                 **{(2, rank): rank != dead for rank in everyone}}
    for rank, (lives, begun, weights) in found.items():
        assert (lives, begun) == ((1, 2) if rank == dead else (2, 1)), found
        assert weights == pytest.approx(undisturbed(workers), abs=1e-3)


@needs_reconfigure
def test_it_lives_on_in_a_script_that_asks_whether_there_is_one(cluster, tmp_path):
    """The old group is no group of the new round until it is connected."""
    text = re.sub(r"( +)(ddprun.init_process_group.*\n)",
                  r"\1if not dist.is_initialized():\n\1    \2", keeping(SCRIPT))
    assert text.count("if not dist.is_initialized()") == 1
    found, agents = ends(cluster, tmp_path, 0, workers=2, text=text)
    assert groups_of(agents) == {(1, 0): False, (1, 1): False, (2, 0): False, (2, 1): True}
    assert {rank: lives for rank, (lives, _, _) in found.items()} == {0: 1, 1: 2}
    for _, _, weights in found.values():
        assert weights == pytest.approx(undisturbed(2), abs=1e-3)


@needs_reconfigure
def test_a_script_that_does_not_connect_it_has_no_group(cluster, tmp_path):
    """Else it would use the connections of the round before."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent("""
        import os, sys
        import torch, torch.distributed as dist
        sys.path.insert(0, sys.argv[1])
        import ddprun


        def train():
            if os.environ["DDPRUN_ROUND"] == "1":
                ddprun.init_process_group("gloo")
                if dist.get_rank() == 0:
                    os._exit(3)
                dist.barrier()
            print("is there one:", dist.is_initialized(), dist.group.WORLD, flush=True)
            dist.barrier()


        ddprun.survive(train)
    """))
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 1, workers=2,
                          conf="stop_grace=60", command=[script, PACKAGE],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait() == 1, agent.err()
    assert "[a:1] is there one: False None" in agent.out(), agent.err()
    assert "Default process group has not been initialized" in agent.err() + agent.out()


@needs_reconfigure
@pytest.mark.skipif(not typing_extensions.__file__.startswith(sys.prefix),
                    reason="this environment has packages of another, which no spare imports ahead")
def test_a_spare_that_waits_comes_into_the_group(cluster, tmp_path):
    found, agents = ends(cluster, tmp_path, 1, tmp_path / "die",
                         then=dies_when_spares_wait(tmp_path / "die"),
                         options=("--survivors", "on", "--warm", "auto"), text=keeping(SCRIPT))
    assert groups_of(agents)[2, 0] and groups_of(agents)[2, 2] and not groups_of(agents)[2, 1]
    assert "rank 1 was started warm" in agents[0].out(), agents[0].err()
    for _, _, weights in found.values():
        assert weights == pytest.approx(undisturbed(3), abs=1e-3)


@needs_reconfigure
def test_it_has_as_many_ranks_as_the_round(cluster, tmp_path):
    """The first node is lost, and those of the second become ranks 0 and 1. The arguments are those
    that torch's own function takes without names."""
    script = tmp_path / "train.py"
    script.write_text(keeping(SCRIPT, '"gloo", "env://"'))
    daemon = cluster.daemon()
    a, b = cluster.nodes("a", "b", arguments=["--survivors", "on", "--max-restarts", 2],
                         endpoint=f"127.0.0.1:{daemon.port}", nnodes="1:2", workers=2,
                         conf=f"{NONE_IS_LOST},stop_grace=60",
                         command=[script, PACKAGE, 0, tmp_path / "never"],
                         environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"})
    a.says("is in step 8")
    a.kill()
    assert b.wait() == 0, b.err()
    assert groups_of([b]) == {(1, 2): False, (1, 3): False, (2, 0): True, (2, 1): True}
    weights = re.findall(r"rank \d lived 2 rounds, began in 1: (.*)", b.out())
    assert len(weights) == 2
    for each in weights:
        assert list(map(float, each.split())) == pytest.approx(undisturbed(4, 2), abs=1e-3)


@needs_reconfigure
def test_it_outlives_a_round_in_which_it_was_not_connected(cluster, tmp_path):
    """The one that is started for the second round ends before it meets the others."""
    script = tmp_path / "train.py"
    script.write_text(keeping(AGAIN))
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 2, "--max-quick-failures", 0,
                          workers=3, conf="backoff_max=0,stop_grace=60",
                          command=[script, PACKAGE, "gloo"],
                          environment={"PYTHON_EXEC": sys.executable})
    agent.says("2 of 3 workers of this node lived on from the round before")
    (cluster.folder / "die").touch()
    assert agent.wait() == 0, agent.err()
    found = re.findall(r"rank (\d) lived (\d) rounds, began in (\d): 3\n", agent.out())
    assert sorted(found) == [("0", "1", "3"), ("1", "3", "1"), ("2", "3", "1")]
    assert groups_of([agent]) == {(1, 0): False, (1, 1): False, (1, 2): False,
                                  (3, 0): False, (3, 1): True, (3, 2): True}


# Each round's last call of a collective ends it, but for the last round: a rank dies in its place.
OWN = textwrap.dedent("""
    import os, sys
    import torch, torch.distributed as dist
    sys.path.insert(0, sys.argv[1])
    import ddprun

    held, begun = None, os.environ["DDPRUN_ROUND"]
    OWN_ROUNDS = sys.argv[2].split(",")


    def mean_of_ranks(group):
        value = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(value, group=group)
        return value.item() / dist.get_world_size(group)


    def train():
        global held
        this_round = os.environ["DDPRUN_ROUND"]
        if this_round in OWN_ROUNDS:
            assert not dist.is_initialized()
            dist.init_process_group("gloo")
        else:
            ddprun.init_process_group("gloo")
        rank, world = dist.get_rank(), dist.group.WORLD
        what = "the group of before" if held is world else "a new one"
        print(f"rank {rank} has {what} in round {this_round}", flush=True)
        if this_round not in OWN_ROUNDS:
            held = world
        names = torch.distributed.distributed_c10d._world.pg_names
        assert list(names) == [world] and names[world] == world.group_name == "0", names
        assert torch._C._distributed_c10d._resolve_process_group("0") is world
        assert list(torch.distributed.distributed_c10d._world.tags_to_pg[""]) == [world]
        assert dist.get_process_group_ranks(world) == list(range(dist.get_world_size()))
        means = mean_of_ranks(world), mean_of_ranks(dist.new_group([0, dist.get_world_size() - 1]))
        print(f"rank {rank}, begun in {begun}, has {means} in round {this_round}", flush=True)
        dist.barrier()
        if this_round < "4":
            if rank == 0:
                os._exit(3)
            dist.barrier()


    ddprun.survive(train)
""")


@needs_reconfigure
@pytest.mark.parametrize("own", ["2", "2,3"])
def test_a_script_may_make_its_own_while_it_is_kept(cluster, tmp_path, own):
    """A library that asks whether there is a group, and makes one: those that live on meet the one
    that is started in it. When it is gone, the one that is kept is connected again."""
    script = tmp_path / "train.py"
    script.write_text(OWN)
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 3, "--max-quick-failures", 0,
                          workers=2, conf="backoff_max=0,stop_grace=60",
                          command=[script, PACKAGE, own],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait() == 0, agent.err()
    rounds = range(1, 5)
    assert groups_of([agent]) == {
        (number, rank): rank == 1 and number != 1 and str(number) not in own.split(",")
        for number in rounds for rank in range(2)}, agent.err()
    found = re.findall(r"rank (\d), begun in (\d), has (.*) in round (\d)", agent.out())
    assert sorted(found) == sorted(
        (str(rank), str(1 if rank == 1 else number), "(0.5, 0.5)", str(number))
        for number in rounds for rank in range(2)), agent.err()


@needs_reconfigure
def test_one_that_the_script_makes_leaves_the_kept_one_as_it_is(tmp_path):
    """One process is all ranks of three rounds. In the second the script's own group is the default
    group, and torch destroys all that it knows with it."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(f"""
        import os, sys, tempfile
        sys.path.insert(0, {str(PACKAGE)!r})
        import torch, torch.distributed as dist
        import ddprun
        from ddprun import groups

        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0",
                          DDPRUN_ROUND="1")
        world = dist.distributed_c10d._world
        tables = [table for table in vars(dist.distributed_c10d).values() if type(table) is dict]
        ddprun.init_process_group("gloo")
        first = dist.group.WORLD
        known = [first in table for table in tables]
        tags = {{tag: list(ones) for tag, ones in world.tags_to_pg.items()}}
        assert groups.keep(dist) and sum(known) > 3
        assert not any(first in table for table in tables) and not any(world.tags_to_pg.values())

        os.environ["DDPRUN_ROUND"] = "2"
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert dist.group.WORLD is not first and not groups.keep(dist)
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()

        os.environ["DDPRUN_ROUND"] = "3"
        ddprun.init_process_group("gloo")
        assert dist.group.WORLD is first and known == [first in table for table in tables]
        assert {{tag: list(ones) for tag, ones in world.tags_to_pg.items()}} == tags
        assert dist.new_group([0]).group_name == "1"
        dist.all_reduce(torch.ones(1))

        # It is asked for again, and the round ends before it is connected.
        os.environ["MASTER_PORT"] = "none"
        try:
            ddprun.init_process_group("gloo")
        except ValueError as error:
            print(error)
        os.environ["MASTER_PORT"] = "0"
        assert not dist.is_initialized() and not world.pg_names, world.pg_names

        # One that is there when the script asks for the kept one: torch's error, no other group.
        os.environ["DDPRUN_ROUND"] = "4"
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        own = dist.group.WORLD
        try:
            ddprun.init_process_group("gloo")
        except ValueError as error:
            print(error)
        assert dist.group.WORLD is own
        dist.all_reduce(torch.ones(1))
    """))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "twice" in done.stdout


def test_with_an_older_pytorch_the_group_is_made_anew(cluster, tmp_path):
    older = "import ddprun\nvars(dist).pop('_reconfigure', None)\n"
    text = keeping(SCRIPT).replace("import ddprun\n", older)
    found, agents = ends(cluster, tmp_path, 1, workers=2, text=text)
    assert {rank: lives for rank, (lives, _, _) in found.items()} == {0: 2, 1: 1}
    assert not any(groups_of(agents).values()) and len(groups_of(agents)) == 4
    for _, _, weights in found.values():
        assert weights == pytest.approx(undisturbed(2), abs=1e-3)


def test_without_ddprun_it_is_what_torch_does(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(PACKAGE)!r})
        import torch, torch.distributed as dist
        import ddprun
        store = dist.HashStore()
        ddprun.survive(lambda: ddprun.init_process_group("gloo", store=store, rank=0, world_size=1))
        dist.all_reduce(torch.ones(1))
        print(dist.get_backend(), dist.get_world_size())
    """))
    environment = {name: value for name, value in os.environ.items() if "DDPRUN" not in name}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stdout) == (0, "gloo 1\n"), done.stderr
