"""The root cause of a failure, with what PyTorch prints when a peer is gone."""

import re
import sys
import textwrap

import pytest

from tests.support.cluster import BIN, Program
from tests.support.ports import free_port

LIMIT = 240  # PyTorch is imported
# For tests in which a rank never ends: the others have to end within this time.
PATIENT = ("--failure-grace=30",)
# Rank 2 fails, and cleans up before it ends: the others see its connections close before.
SCRIPT = textwrap.dedent("""
    import os, sys, time
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    def step(number):
        if rank == 2 and number == 3:
            raise ValueError("loss is NaN")
        dist.all_reduce(torch.ones(1))
    try:
        for number in range(100000):
            step(number)
    finally:
        dist.destroy_process_group()
        if rank == 2:
            time.sleep(float(sys.argv[1]))
""")


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def run(cluster, script, pause, *options):
    port = free_port()
    agents = [Program(cluster, node,
                      [BIN / "ddprun", "--nnodes=2", f"--nproc-per-node={workers}",
                       f"--rdzv-endpoint=127.0.0.1:{port}", "--node-id", node, "--node-rank",
                       str(rank), *options, script, str(pause)],
                      environment={"PYTHON_EXEC": sys.executable})
              for rank, (node, workers) in enumerate((("a", 1), ("b", 2)))]
    assert [agent.wait(LIMIT) for agent in agents] == [1, 1]
    return [agent.err() for agent in agents]


def test_the_rank_that_failed_is_named_though_it_ends_last(cluster, script):
    # However busy the machine is, the grace ends when no worker is left.
    for words in run(cluster, script, 1, "--failure-grace=100"):
        assert "b: rank 2 (local rank 1) exited with code 1: ValueError: loss is NaN" in words
        shown = words.partition("where it failed, the innermost last:\n")[2].splitlines()
        assert re.match(r"  \|   \S+train.py:\d+ in <module>: step\(number\)$", shown[0])
        assert re.match(r'  \|   \S+train.py:\d+ in step: raise ValueError\("loss is NaN"\)$',
                        shown[1])
        assert "that means" not in words


def test_a_worker_that_has_failed_and_hangs_while_it_exits_is_named(cluster, script):
    # The thread that it has left running keeps the program from ending.
    text = script.read_text()
    script.write_text(text.replace("time.sleep(float(sys.argv[1]))",
                                   "__import__('threading').Thread(target=time.sleep, "
                                   "args=(1000,)).start()"))
    assert script.read_text() != text
    for words in run(cluster, script, 0, *PATIENT):
        assert ("b: rank 2 (local rank 1) had not ended yet when it was stopped: "
                "ValueError: loss is NaN") in words
        assert "ranks 0 and 1 ended because of it" in words
        assert "in step: raise ValueError" in words


def test_without_a_grace_the_effect_is_all_that_is_known(cluster, script):
    for words in run(cluster, script, 1000, "--failure-grace=0"):
        assert re.search(r": rank [01] \(local rank 0\) exited with code 1: RuntimeError: .*"
                         r"Connection (closed|reset) by peer", words)
        assert "that means: another rank ended, or closed its connections; what to do: " in words


ABSENT = textwrap.dedent("""
    import datetime, os, sys, time
    import torch, torch.distributed as dist
    rank = os.environ["RANK"]
    folder = os.path.dirname(os.path.abspath(__file__))
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    if rank == "2":
        time.sleep(1000)
    briefly = dist.AllreduceOptions()
    briefly.timeout = datetime.timedelta(seconds=2)
    try:
        dist.group.WORLD.allreduce([torch.ones(1)], briefly).wait()
    finally:
        dist.destroy_process_group()  # or Gloo's thread may abort the process at its end
""")


def test_a_rank_that_never_comes_to_a_collective_is_named(cluster, script):
    script.write_text(ABSENT)
    after = r" after [\d.]+ m?s( to [\d.]+ m?s)?"
    for words in run(cluster, script, 0, *PATIENT):
        assert re.search(r"the root cause:\n  \| [ab]: rank [01] \(local rank 0\) exited with "
                         r"code 1: .*Timed out waiting", words), words
        assert ("  | rank 2 was still at work when the others gave up waiting: look there first\n"
                in words), words
        assert re.search(rf"\| rank [01] ended because of it \(exit code 1\){after}; "
                         rf"rank 2 was stopped{after}\n", words), words
