"""Hangs of ranks that spin while they wait for their GPU, tested without a GPU: they spin in one C
call until the test lets them go, and the test supplies NCCL's counts."""

import json
import sys

import pytest

from tests.support.cluster import wait_for
from tests.support.fake_ras import FakeRas, status
from tests.support.ports import free_port
from tests.support.standing_script import line_of, write

# In addition to the package's all_reduce.
CUDA = """
import functools
import os

until_go = functools.partial(os.access, os.environ["DDPRUN_TEST_CONTROL"] + "/go", os.F_OK)


class Tensor:
    def __init__(self):
        self.until_go = until_go
        self.item = functools.partial(sum, iter(until_go, True))


def synchronize():
    sum(iter(until_go, True))
"""
LEVEL = [5, 5, 5]
BEHIND = [5, 4, 5]


class Counts:
    """NCCL's answers about its ranks: the next of these each time, and the last one from then
    on."""

    def __init__(self, *counts, pids=None):
        self.left = list(counts)
        self.pids = pids
        self.server = FakeRas(self.answer)

    def answer(self, file):
        counts = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        file.write(status(counts, self.pids and self.pids()))

    def times_asked(self):
        return self.server.asked.count("VERBOSE STATUS")


@pytest.fixture(name="counts")
def _counts():
    made = []

    def make(*counts, **more):
        made.append(Counts(*counts, **more))
        return made[-1]

    yield make
    for one in made:
        one.server.close()


def start(cluster, tmp_path, work, address, *options, workers=3):
    """`work`: what the first attempt does in its second step."""
    lines = "\n".join("    " + line for line in work.strip("\n").splitlines())
    script = write(tmp_path, "from torch.cuda import Tensor, synchronize\nloss = Tensor()\n"
                             f"if attempt == 0 and step == 1:\n{lines}\n")
    package = tmp_path / "packages" / "torch" / "cuda"
    package.mkdir()
    (package / "__init__.py").write_text(CUDA)
    agent = cluster.agent("node", "--max-restarts", 1, "--max-quick-failures", 0,
                          "--hang-timeout", 3, *options, workers=workers, command=[script],
                          environment={"PYTHON_EXEC": sys.executable, "NCCL_RAS_ADDR": address})
    return script, agent


@pytest.mark.main_path
def test_ranks_that_spin_as_they_wait_for_their_gpus_do_not_move(cluster, tmp_path, counts):
    report = tmp_path / "report"
    script, agent = start(cluster, tmp_path, """
if rank == 0:
    synchronize()
if rank == 1:
    time.sleep(3600)
if rank == 2:
    loss.item()
""", counts(BEHIND).server.address, "--report", report)
    assert agent.wait() == 0, agent.err()
    sentence = (f"rank 1 stood in forward (train.py:{line_of(script, 'sleep(3600)')}) while rank 0 "
                "waited for the GPU in synchronize, ")
    cause = json.loads(report.read_text().splitlines()[0])["root_cause"]
    assert (cause["kind"], cause["rank"]) == ("hung", 1)
    assert sentence in cause["sentence"]
    assert (f"rank 2 waited for the GPU in .item(), forward (train.py:"
            f"{line_of(script, 'loss.item()')})") in cause["sentence"]
    assert agent.out().count("attempt 1 has ended well") == 3
    cluster.nothing_left()


def test_of_ranks_that_all_spin_the_one_that_is_behind_in_nccl_is_named(cluster, tmp_path, counts):
    def pids():
        return [int((cluster.folder / f"pid.{rank}").read_text()) for rank in range(3)]

    _, agent = start(cluster, tmp_path, """
(folder / f"pid.{rank}").write_text(str(os.getpid()))
synchronize()
""", counts(BEHIND, pids=pids).server.address)
    assert agent.wait() == 0, agent.err()
    assert "rank 1 hangs and is ended: " in agent.err()
    assert "behind the others in NCCL (AllReduce 4, others 5) while ranks 0 and 2" in agent.err()
    cluster.nothing_left()


# Each of them waits as long as NCCL is asked again and again without a result, so all seem to stand
# still.
LIVES = {
    "NCCL counts": ("synchronize()", [[count, count, count] for count in range(1000)]),
    "one computes": ("""
if rank == 0:
    sum(iter(loss.until_go, True))
else:
    synchronize()
""", [LEVEL]),
}


@pytest.mark.parametrize("how", LIVES)
def test_a_rank_that_spins_in_one_call_may_move(cluster, tmp_path, counts, how):
    """It computes in the call, or waits for a GPU that computes: the job launches collectives, or
    the call is not a wait."""
    work, said = LIVES[how]
    nccl = counts(*said)
    _, agent = start(cluster, tmp_path, work, nccl.server.address)
    wait_for("NCCL to be asked for a second hang", lambda: nccl.times_asked() >= 4)
    (cluster.folder / "go").touch()
    assert agent.wait() == 0, agent.err()
    assert "hang" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()


def test_where_all_wait_for_their_gpus_and_none_is_behind_none_is_ended(cluster, tmp_path, counts):
    """They may wait for what their GPUs compute, because NCCL counts a collective when it is
    launched."""
    _, agent = start(cluster, tmp_path, "synchronize()", counts(LEVEL).server.address)
    agent.says(r"no rank of this node has moved for .*; none is ended")
    (cluster.folder / "go").touch()
    assert agent.wait() == 0, agent.err()
    assert "hangs" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()


def test_a_main_thread_that_sleeps_while_another_computes_is_not_woken(cluster, tmp_path, counts):
    """It gets no signal, although the process uses its processor all the time, because a signal
    handler would end the sleep."""
    _, agent = start(cluster, tmp_path, """
if rank == 0:
    import threading

    woken = threading.Event()

    def compute():
        until = time.monotonic() + 6
        while time.monotonic() < until:
            sum(range(1000))
        (folder / "go").touch()
        while not woken.wait(0.05):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, lambda *_: None)
    threading.Thread(target=compute).start()
    signal.pause()
    woken.set()
    assert os.path.exists(folder / "go"), "woken too early"
else:
    synchronize()
""", counts(LEVEL).server.address)
    assert agent.wait() == 0, agent.err()
    assert "hangs" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()


# Rank 0 does this for far longer than the limit, and the others spin in a wait meanwhile.
WORK = """
if rank != 0:
    synchronize()
else:
    until = time.monotonic() + 6
    while time.monotonic() < until:
        {}
    (folder / "go").touch()
"""


def test_a_rank_that_comes_back_from_each_call_moves(cluster, tmp_path, counts):
    """One rank evaluates, or stages only send to each other, so NCCL counts nothing."""
    _, agent = start(cluster, tmp_path, WORK.format("float(sum(range(100000)))"),
                     counts(LEVEL).server.address)
    assert agent.wait() == 0, agent.err()
    assert "hang" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()


def test_ranks_that_spin_move_where_nccl_says_nothing(cluster, tmp_path):
    _, agent = start(cluster, tmp_path, WORK.format("time.sleep(0.1)"),
                     f"127.0.0.1:{free_port()}")  # a port on which no program listens
    assert agent.wait() == 0, agent.err()
    assert "hang" not in agent.err() and "attempt 0 has ended well" in agent.out()
    cluster.nothing_left()
