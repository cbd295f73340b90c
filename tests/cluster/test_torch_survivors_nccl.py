"""`ddprun.survive` with groups of NCCL: what an aborted collective leaves behind reaches no state.

Without a GPU a stand-in behaves like NCCL: a collective is enqueued and done later, in order; one
whose peer is gone ends only when it is aborted, and then leaves NaN."""

import importlib
import re
import socket
import sys
import textwrap
import threading

import pytest

from tests.support.cluster import ROOT, wait_for
from tests.support.gpus import ended_well, placed, visible_gpus

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

PACKAGE = ROOT / ".cmake/package/wheel"
LIMIT = 240  # PyTorch is imported

STAND_IN = textwrap.dedent("""
    import threading, time
    import torch
    import torch.distributed as dist

    groups, asked = [], []


    class Asked(dist._Work):
        def wait(self, timeout=None):
            return True


    class StandIn(dist.ProcessGroup):
        def __init__(self, store, rank, size, timeout):
            super().__init__(rank, size)
            self.inner = dist.ProcessGroupGloo(store, rank, size, timeout)
            self.is_aborted = threading.Event()
            groups.append(self)

        def getBackendName(self):
            return "stand_in_nccl"

        def allreduce(self, tensors, options=None):
            if self.is_aborted.is_set():
                raise RuntimeError("this communicator was aborted")
            asked.append((self, self.inner.allreduce(tensors, options), tensors))
            return Asked()

        def abort(self):
            self.is_aborted.set()
            for group in groups:  # its kernels may stand behind theirs
                group.is_aborted.wait()

        def shutdown(self):
            groups.remove(self)


    def wait_for_all(*_):
        while asked:
            group, work, tensors = asked.pop(0)
            while not work.is_completed() and not group.is_aborted.is_set():
                time.sleep(0.001)
            try:
                if not group.is_aborted.is_set():
                    work.wait()
            except RuntimeError:
                group.is_aborted.wait()
            if group.is_aborted.is_set():
                for tensor in tensors:
                    tensor.fill_(float("nan"))


    dist.Backend.register_backend("stand_in_nccl", StandIn, devices=["cpu"])
""")

# Rank 1 dies in step 4 of the first round. argv: the folder of the package, what survive() is
# given, a folder for a snapshot.
SCRIPT = STAND_IN + textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[1])
    import ddprun
    from ddprun import nccl, survivors

    nccl.wait_for = nccl.wait_for_gpus = wait_for_all
    state, snapshot = sys.argv[2], Path(sys.argv[3]) / "snapshot"
    begun, step, lives = os.environ["DDPRUN_ROUND"], 0, 0
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    second = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    is_loaded = state in ("loaded", "settled")


    def take_state(gloo):
        global step
        if is_loaded:
            kept = torch.load(snapshot) if snapshot.exists() else [torch.zeros(2), None, 0]
        else:
            steps = [None] * dist.get_world_size()
            dist.all_gather_object(steps, step, group=gloo)
            kept = [weight.detach(), optimizer.state_dict(), step]
            dist.broadcast_object_list(kept, src=steps.index(max(steps)), group=gloo)
        weight.data.copy_(kept[0])
        if kept[1] is not None:
            optimizer.load_state_dict(kept[1])
        step = kept[2]


    def make_gradient(rank, group):
        weight.grad = torch.tensor([step + 1.0, rank + 1.0])
        dist.all_reduce(weight.grad, group=group)


    def train():
        global step, lives
        lives += 1
        dist.init_process_group("stand_in_nccl")
        rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
        gloo = dist.new_group(backend="gloo")
        other = dist.new_group(backend="stand_in_nccl")
        take_state(gloo)
        if state == "twice":
            if (rank, attempt) == (1, "1"):
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(weight.data, dist.ReduceOp.MAX)  # as DDP's constructor does
        while step < 8:
            if (rank, step, attempt) == (1, 4, "0") and state != "two":
                os.kill(os.getpid(), signal.SIGKILL)
            gradient = lambda: make_gradient(rank, other if step % 2 else None)
            if state == "positional":
                optimizer.step(gradient)
            elif state == "keyword":
                optimizer.step(closure=gradient)
            else:
                gradient()
            if state in ("loaded", "none"):
                wait_for_all()
            if state == "settled":
                ddprun.settle()
            if state == "loaded" and not weight.grad.isfinite().all():
                return  # as if the loss were not
            if state not in ("positional", "keyword"):
                optimizer.step()
            if state == "two":
                if (step, attempt) == (4, "0"):
                    stepped = snapshot.with_name("stepped")
                    if rank == 1:
                        while not stepped.exists():
                            time.sleep(0.01)
                        os.kill(os.getpid(), signal.SIGKILL)
                    stepped.touch()
                    while begun == "1" and not survivors.Link.current.round.has_aborted_nccl:
                        time.sleep(0.01)
                second.step()
            step += 1
            if is_loaded and rank == 0 and step in (3, 6):
                torch.save([weight.detach(), optimizer.state_dict(), step], snapshot)
        print(f"rank {rank} lived {lives} rounds, began in {begun}, "
              f"watchdog {os.environ['TORCH_NCCL_ASYNC_ERROR_HANDLING']}: {weight.tolist()}",
              flush=True)
        dist.destroy_process_group()


    given = "loaded" if is_loaded else "stepped"
    ddprun.survive(train, **({} if state == "none" else {"state": given}))
""")


def expected_weights():
    weights, speed = [0.0, 0.0], [0.0, 0.0]
    for step in range(8):
        for index, gradient in enumerate((2 * (step + 1.0), 3.0)):
            speed[index] = 0.9 * speed[index] + gradient
            weights[index] -= 0.1 * speed[index]
    return weights


@pytest.mark.parametrize("state", [
    "stepped", "settled", "loaded", "none", "twice", "positional", "two",
    pytest.param("keyword", marks=pytest.mark.slow)])
def test_what_an_aborted_collective_leaves_reaches_no_state(cluster, tmp_path, state):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    grace = 5 if state == "none" else 60  # survivors may need long on a slow machine
    # On a fast machine two alike failures come soon after one another.
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 2, "--max-quick-failures", 0,
                          workers=2, conf=f"stop_grace={grace}",
                          command=[script, PACKAGE, state, tmp_path],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait(LIMIT) == 0, agent.err()
    ends = re.findall(r"rank (\d) lived (\d) rounds, began in (\d), watchdog (\d): \[(.*)\]",
                      agent.out())
    # If the script does not name its state, a worker is started again, as if the option were off.
    # The same holds if the round ends before its first step, or between the steps of two
    # optimizers.
    kept = {"none": ("1", "2", "1"), "twice": ("1", "3", "0"),
            "two": ("1", "2", "0")}.get(state, ("2", "1", "0"))
    new = ("1", "3" if state == "twice" else "2", kept[2])
    assert {one[0]: one[1:4] for one in ends} == {"0": kept, "1": new}
    for *_, weights in ends:
        assert list(map(float, weights.split(", "))) == pytest.approx(expected_weights())


def test_a_state_that_is_unknown_is_named(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(PACKAGE)!r})
        import ddprun
        ddprun.survive(print, state="saved")
    """))
    agent = cluster.agent("a", "--max-restarts", 0, command=[script],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait(LIMIT) == 1
    assert "ValueError: ddprun.survive: state is 'saved'; give 'loaded' or 'stepped', or nothing" \
        in agent.err()


@pytest.mark.parametrize("model, told", [
    ("BatchNorm1d(2)", "DistributedDataParallel sends the model's buffers to the other ranks"),
    ("SyncBatchNorm(2)", "SyncBatchNorm averages its statistics over the ranks"),
])
def test_state_that_collectives_write_is_named(cluster, tmp_path, model, told):
    script = tmp_path / "train.py"
    script.write_text(STAND_IN + textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(PACKAGE)!r})
        import ddprun

        def train():
            dist.init_process_group("stand_in_nccl")
            gloo = dist.new_group(backend="gloo")
            model = torch.nn.{model}
            if {model!r}.startswith("Batch"):
                model = torch.nn.parallel.DistributedDataParallel(model, process_group=gloo)
            torch.optim.SGD(model.parameters(), lr=0.1).step()

        ddprun.survive(train, state="stepped")
    """))
    agent = cluster.agent("a", "--survivors", "on", "--max-restarts", 0, command=[script],
                          environment={"PYTHON_EXEC": sys.executable})
    assert agent.wait(LIMIT) == 1
    assert re.search(rf"ValueError: ddprun.survive\(state='stepped'\): {told}", agent.err())


@pytest.fixture(name="package")
def package_fixture(monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE))
    yield importlib.import_module("ddprun.nccl"), importlib.import_module("ddprun.survivors")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ddprun"]:
        del sys.modules[name]


@pytest.fixture(name="gate")
def gate_fixture(package):
    """The gate of a process in a group of NCCL."""
    one = package[0].Gate("stepped", lambda: False, lambda: True, lambda: None)
    yield one
    one.remove()


def test_each_device_of_an_optimizer_is_waited_for(package, gate, monkeypatch):
    waited = []
    monkeypatch.setattr(package[0], "wait_for", waited.append)
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device=device))
                     for device in ("cpu", "meta")], lr=0.1).step()
    assert waited == [{torch.device("cpu"), torch.device("meta")}]


def test_state_that_collectives_write_is_named_at_each_first_step(gate):
    weight = torch.nn.Parameter(torch.zeros(1))
    torch.optim.SGD([weight], lr=0.1).step()
    with pytest.raises(ValueError, match="LBFGS changes parameters between evaluations"):
        torch.optim.LBFGS([weight]).step(lambda: 0)

    class ZeroRedundancyOptimizer(torch.optim.SGD):
        pass

    with pytest.raises(ValueError, match="ZeroRedundancyOptimizer sends parameters"):
        ZeroRedundancyOptimizer([weight], lr=0.1).step()


def test_state_that_collectives_write_is_looked_for_in_each_round(gate):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    optimizer.step()
    optimizers = importlib.import_module("torch.distributed.optim")
    wrapper = optimizers.PostLocalSGDOptimizer(optimizer, None)
    gate.begin_round()
    with pytest.raises(ValueError, match="PostLocalSGDOptimizer averages parameters"):
        optimizer.step()
    del wrapper


def test_each_gpu_that_is_in_use_is_waited_for(package, monkeypatch):
    waited = []
    for name, value in (("is_initialized", lambda: True), ("device_count", lambda: 4),
                        ("is_current_stream_capturing", lambda: False),
                        ("synchronize", waited.append)):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda index: index in (1, 3),
                        raising=False)
    package[0].wait_for_gpus()
    assert waited == [1, 3]


def test_nothing_turns_torchs_watchdog_on_again(package):
    for name in ("ASYNC_ERROR_HANDLING", "BLOCKING_WAIT", "DESYNC_DEBUG", "DUMP_ON_TIMEOUT",
                 "RETHROW_CUDA_ERRORS", "TEARDOWN_ON_TIMEOUT"):
        assert package[0].ENVIRONMENT["TORCH_NCCL_" + name] == "0"


class Groups:
    """The part of torch.distributed that survivors.py uses."""

    def __init__(self, count):
        self.groups = [Group() for _ in range(count)]

    def get_backend_config(self, group):
        if group.is_unknown:
            raise ValueError("Invalid process group specified")
        return "cuda:nccl"


class Group:
    def __init__(self):
        self.aborts = 0
        self.is_unknown = False

    def abort(self):
        self.aborts += 1


@pytest.fixture(name="groups")
def groups_fixture(package, monkeypatch):
    found = Groups(3)
    monkeypatch.setattr(package[1], "distributed", lambda: found)
    monkeypatch.setattr(package[1], "groups_of", lambda dist: dist.groups)
    return found


@pytest.fixture(name="current_round")
def current_round_fixture(package):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        one = package[1].Round(ours, True)
        yield one
        theirs.close()
        one.thread.join()


def test_a_group_that_is_unknown_for_a_moment_is_aborted_later(groups, current_round):
    groups.groups[1].is_unknown = True
    current_round.abort_groups()
    assert [one.aborts for one in groups.groups] == [1, 0, 1]
    groups.groups[1].is_unknown = False
    current_round.abort_groups()
    current_round.abort_groups()
    assert [one.aborts for one in groups.groups] == [1, 1, 1]


def test_groups_are_aborted_where_no_thread_can_be_started(groups, current_round, monkeypatch):
    def no_thread(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    current_round.abort_groups()
    assert [one.aborts for one in groups.groups] == [1, 1, 1]


def test_a_group_that_is_being_connected_is_let_alone(package, groups, current_round):
    with package[1].groups.connecting:
        current_round.abort_groups()
        assert [one.aborts for one in groups.groups] == [0, 0, 0]
    current_round.abort_groups()
    assert [one.aborts for one in groups.groups] == [1, 1, 1]


def test_a_group_is_aborted_again_if_it_was_connected_since(package, groups, current_round,
                                                            monkeypatch):
    """As where the word to leave came while it was being connected."""
    current_round.abort_groups()
    monkeypatch.setattr(package[1].groups, "generation", package[1].groups.generation + 1)
    current_round.abort_groups()
    current_round.abort_groups()
    assert [one.aborts for one in groups.groups] == [2, 2, 2]


class Resolver:
    """Resolves the name of the round's store: `answer` returns what it finds for each host, once
    the test lets it."""

    def __init__(self, survivors, monkeypatch, answer):
        self.answer, self.asked = answer, []
        self.may_answer = threading.Event()
        self.ended = []  # the groups whose connections were ended, at each look
        monkeypatch.setattr(survivors, "addresses_of", self.look_up)
        monkeypatch.setattr(survivors.Round, "end_waits",
                            lambda _, store: self.ended.append(store))

    def look_up(self, host, port):
        self.asked.append(host)
        assert self.may_answer.wait(LIMIT)
        return self.answer(host)


@pytest.fixture
def agents_end(package):
    """A round, and the agent's end of its connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield lambda: package[1].Round(ours, True), theirs


def test_the_word_to_leave_and_the_end_of_a_script_wait_for_no_resolver(
        package, monkeypatch, agents_end):
    monkeypatch.setenv("MASTER_ADDR", "node-a")
    resolver = Resolver(package[1], monkeypatch, lambda host: {host})
    begin, agent = agents_end
    one = begin()
    wait_for("the first look, before there is a word", lambda: resolver.asked)
    agent.send(b"leave")
    wait_for("waits to be ended", lambda: resolver.ended)
    assert one.is_to_leave and resolver.ended[0] == set()
    one.has_left.set()
    one.thread.join()  # the resolver has not answered yet
    assert resolver.asked == ["node-a"]
    resolver.may_answer.set()


def test_a_name_that_is_known_late_or_has_changed_is_looked_up_again(
        package, monkeypatch, agents_end):
    monkeypatch.setenv("MASTER_ADDR", "node-a")
    answers = iter([set(), {"late"}])
    resolver = Resolver(package[1], monkeypatch,
                        lambda host: next(answers) if host == "node-a" else {host})
    resolver.may_answer.set()
    begin, agent = agents_end
    one = begin()
    agent.send(b"leave")
    wait_for("what is known late", lambda: {"late"} in resolver.ended)
    monkeypatch.setenv("MASTER_ADDR", "node-b")
    wait_for("the other name", lambda: {"node-b"} in resolver.ended)
    one.has_left.set()
    one.thread.join()
    assert resolver.asked == ["node-a", "node-a", "node-b"]


# On real GPUs. Rank 1 dies in step 8 of the first round, while the others are in the same step.
ON_GPUS = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    import torch
    import torch.distributed as dist
    sys.path.insert(0, sys.argv[1])
    import ddprun

    state, snapshot, backend, dies = sys.argv[2], Path(sys.argv[3]) / "snapshot", *sys.argv[4:]
    begun, step, lives = os.environ["DDPRUN_ROUND"], 0, 0
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1))
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)


    def state_of_all():
        return [model.state_dict(), optimizer.state_dict(), step]


    def take_state():
        global step
        if state == "loaded":
            kept = torch.load(snapshot, map_location=device) if snapshot.exists() else None
        else:
            steps = [None] * dist.get_world_size()
            dist.all_gather_object(steps, step)
            kept = state_of_all()
            dist.broadcast_object_list(kept, src=steps.index(max(steps)))
        if kept is not None:
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
            step = kept[2]


    def train():
        global step, lives
        lives += 1
        dist.init_process_group(backend or None)
        rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
        take_state()
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        while step < 16:
            if dies == "dies" and (rank, step, attempt) == (1, 8, "0"):
                torch.cuda.synchronize()
                os.kill(os.getpid(), signal.SIGKILL)
            data = torch.sin(torch.arange(128.0, device=device).reshape(2, 64) + step + rank)
            optimizer.zero_grad()
            (ddp(data) - data.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
            step += 1
            if state == "loaded" and rank == 0 and step % 4 == 0:
                ddprun.settle()
                torch.save(state_of_all(), snapshot)
        weights = " ".join(f"{value:.6f}" for value in model[2].weight[0, :4].tolist())
        print(f"rank {rank} lived {lives} rounds, began in {begun}: {weights}", flush=True)
        dist.destroy_process_group()


    ddprun.survive(train, state=state)
""")


def ends_on_gpus(cluster, tmp_path, name, *words):
    folder = tmp_path / name
    folder.mkdir()
    script = tmp_path / "train.py"
    script.write_text(ON_GPUS)
    state, *others = words
    ranks, command = placed([sys.executable, "-u", script, PACKAGE, state, folder, *others])
    agent = cluster.agent(name, "--survivors", "on", "--max-restarts", 1, run=name, workers=ranks,
                          conf="stop_grace=60", command=["--no-python", *command])
    ended_well(agent, LIMIT)
    found = re.findall(r"rank (\d+) lived (\d) rounds, began in (\d): (.*)", agent.out())
    assert len(found) == ranks
    return {int(rank): (int(lives), int(begun), list(map(float, weights.split())))
            for rank, lives, begun, weights in found}


@pytest.mark.skipif(visible_gpus() == 0, reason="no GPU is visible")
@pytest.mark.parametrize("state, backend", [("stepped", "nccl"), ("stepped", "cpu:gloo,cuda:nccl"),
                                            ("loaded", "")])
def test_nothing_of_the_others_is_lost_on_gpus(cluster, tmp_path, state, backend):
    found = ends_on_gpus(cluster, tmp_path, "disturbed", state, backend, "dies")
    for rank, (lives, begun, _) in found.items():
        assert (lives, begun) == ((1, 2) if rank == 1 else (2, 1)), found
    undisturbed = ends_on_gpus(cluster, tmp_path, "undisturbed", state, backend, "lives")
    for rank, (_, _, weights) in found.items():
        assert weights == pytest.approx(undisturbed[rank][2], abs=1e-5)
