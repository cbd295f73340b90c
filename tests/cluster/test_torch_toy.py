"""examples/04_toy in each form in which people launch it: the C++ program and the PyTorch script
say the same."""

import re
import sys

import pytest

from tests.support.cluster import BIN, ROOT, Program, free_port

PROGRAM = BIN / "toy"
SCRIPT = ROOT / "examples" / "04_toy" / "toy.py"
LIMIT = 120
BY_HAND = ["--rank", "{rank}", "--world-size", "{world_size}", "--ip", "{master_addr}",
           "--port", "{master_port}"]


def program(kind, *arguments):
    if kind == "python":
        pytest.importorskip("torch", reason="PyTorch is not installed here")
        return [SCRIPT, *arguments]
    if not PROGRAM.exists():
        pytest.skip("toy is not built: no LibTorch")
    return ["--no-python", PROGRAM, *arguments]


def expected(world_size):
    total = world_size * (world_size + 1) // 2
    last = [10 * (world_size - 1) + index for index in range(3)]
    lines = []
    for rank in range(world_size):
        lines.append(f"rank {rank} of {world_size}: all_reduce {[rank + 1] * 3} -> {[total] * 3}")
        lines.append(f"rank {rank} of {world_size}: broadcast from the last "
                     f"{[10 * rank + index for index in range(3)]} -> {last}")
    return sorted(lines)


def said(programs):
    text = "".join(program.out() for program in programs)
    return sorted(re.sub(r"^\[[^ ]+\] ", "", line) for line in text.splitlines())


def check(programs, world_size):
    for each in programs:
        assert each.wait(LIMIT) == 0, each.out() + each.err()
    assert said(programs) == expected(world_size)


@pytest.mark.parametrize("kind", ["program", "python"])
def test_two_nodes_with_two_and_three_workers(cluster, kind):
    daemon = cluster.daemon()
    check([cluster.agent(name, nnodes=2, workers=workers, run="toy",
                         endpoint=f"127.0.0.1:{daemon.port}", command=program(kind),
                         environment={"PYTHON_EXEC": sys.executable})
           for name, workers in (("a", 2), ("b", 3))], 5)


@pytest.mark.parametrize("kind", ["program", "python"])
def test_ranks_told_by_arguments_that_the_launcher_fills_in(cluster, kind):
    check([cluster.agent("", workers=2, command=program(kind, *BY_HAND),
                         environment={"PYTHON_EXEC": sys.executable})], 2)


@pytest.mark.parametrize("kind", ["program", "python"])
def test_ranks_started_by_hand(cluster, kind):
    port = free_port()
    start = [sys.executable, SCRIPT] if kind == "python" else program(kind)[1:]
    check([Program(cluster, f"rank{rank}", [*start, "--rank", rank, "--world-size", 3,
                                            "--ip", "127.0.0.1", "--port", port])
           for rank in (2, 0, 1)], 3)


def test_what_is_missing_by_hand_is_said(cluster):
    start = program("program")[1:]
    for arguments, line in [
            (["--rank", 0], "toy: --rank, --world-size, --ip and --port go together\n"),
            (["--rank", "x"], "toy: --rank is 'x': it must be a whole number\n"),
            (["--rank", 3, "--world-size", 3, "--ip", "::1", "--port", 1],
             "toy: rank 3 of 3 is none: ranks are 0 to the world size less one\n"),
            ([], "toy: WORLD_SIZE is not set: start this program with ddprun or torchrun, which "
                 "set it\n")]:
        one = Program(cluster, "alone", [*start, *arguments])
        assert one.wait(LIMIT) != 0
        assert one.err() == line
