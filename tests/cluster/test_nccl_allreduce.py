"""A C++ program that joins with the launcher's NCCL ids: examples/03_nccl_allreduce with the NCCL
that it was linked with. Without a GPU it gets as far as asking for one."""

import re
import subprocess

import pytest

from tests.support.cluster import BIN
from tests.support.gpus import ended_well, on_one_gpu, visible_gpus
from tests.support.installed_nccl import installed_nccl, linked_nccl

PROGRAM = BIN / "nccl_allreduce"
GPUS = visible_gpus()
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs NCCL and nvcc to be built")
needs_gpu = pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
SMALL = ["-b", "8", "-e", "4M", "-f", "8"]


def start(cluster, workers, *arguments, library=None, program=(PROGRAM,), more=()):
    return cluster.agent("node-a", "--nccl-ids", "on", *more, workers=workers,
                         environment={"DDPRUN_NCCL_LIBRARY": library or linked_nccl(PROGRAM)},
                         command=["--no-python", *program, *arguments])


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
def test_a_worker_without_a_gpu_says_so(cluster):
    agent = start(cluster, 2, *SMALL)
    assert agent.wait() == 1
    assert re.search(r"nccl_allreduce: rank [01] of 2, NCCL [0-9.]+: join: no GPU is visible",
                     agent.err())


def test_another_nccl_than_the_one_of_the_ids_is_refused(cluster):
    other = installed_nccl()
    if other is None or str(other) == linked_nccl(PROGRAM):
        pytest.skip("only one NCCL is installed here")
    agent = start(cluster, 2, *SMALL, library=str(other))
    assert agent.wait() == 1
    assert re.search(r"NCCL [0-9.]+ is loaded here, and NCCL [0-9.]+ has made this round's ids",
                     agent.err())


def test_ids_of_another_version_are_refused(cluster):
    """They are refused before anything is done with the GPU."""
    agent = start(cluster, 1, *SMALL, program=["env", "DDPRUN_NCCL_VERSION=21803", PROGRAM])
    assert agent.wait() == 1
    assert re.search(r"nccl_allreduce: .*NCCL [0-9.]+ is loaded here, and NCCL 2\.18\.3 has made "
                     "this round's ids", agent.err())


@pytest.mark.parametrize("wrong, said", [
    (["-b", "no"], "-b 'no': a number from 4 to 1099511627776, or with K, M, G"),
    (["-b", "8", "-e", "4"], "-b 8 is more than -e 4"),
    (["-f", "1"], "-f '1': a number from 2 to 1024"),
    (["--no-such"], "'--no-such' is no option, or lacks its value"),
    (["more"], "'more' is no option"),
])
def test_a_wrong_command_line_is_one_line(wrong, said):
    done = subprocess.run([PROGRAM, *wrong], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"nccl_allreduce: {said}; see --help\n"


@needs_gpu
def test_all_gpus_sum_up(cluster):
    agent = start(cluster, GPUS, *SMALL)
    ended_well(agent)
    assert "# Out of bounds values : 0 OK" in agent.out()


@needs_gpu
def test_two_ranks_on_one_gpu_sum_up(cluster):
    agent = start(cluster, 2, *SMALL, program=on_one_gpu([PROGRAM]))
    ended_well(agent)
    assert "# Out of bounds values : 0 OK" in agent.out()


@needs_gpu
def test_a_rank_that_does_not_come_is_named(cluster):
    program = ["sh", "-c", 'test $RANK = 0 || exec sleep 1000; exec "$@"', "sh",
               *on_one_gpu([PROGRAM])]
    agent = start(cluster, 2, *SMALL, "-T", "5", program=program)
    assert agent.wait() == 1
    agent.says(r"rank 0 of 2, .*: join: not joined within 5 s: rank 1 has not come")
