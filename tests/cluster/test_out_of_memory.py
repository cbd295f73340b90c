"""OOM kills are distinguished from manual kills."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cgroups
from tests.support.cluster import BIN, Program, wait_for


@pytest.fixture
def small_memory():
    """The file of a control group with 60 MB of memory that takes processes."""
    with cgroups.of_memory(60_000_000) as folder:
        yield folder / "cgroup.procs"


def counts_oom_kills():
    return "oom_kill " in Path("/proc/vmstat").read_text()


@pytest.mark.skipif(not counts_oom_kills(), reason="this kernel does not count them")
def test_the_kernels_kill_is_named(cluster, small_memory):
    # torchrun turns $$ into $.
    eat = f"echo $$$$ > {small_memory}; exec {sys.executable} -c 'bytearray(400_000_000)'"
    job = Program(cluster, "a", [BIN / "ddprun", "--no-python", "/bin/bash", "-c", eat])
    assert job.wait() == 128 + signal.SIGKILL
    # It is known from the kernel's log or from a counter, whichever this machine allows.
    assert "killed by SIGKILL: out of memory: the kernel" in job.err()


def test_a_kill_by_hand_is_not_called_that(cluster, tmp_path):
    job = Program(cluster, "a", [BIN / "ddprun", "--no-python", "/bin/sh", "-c",
                                 f"echo $$$$ > {tmp_path}/pid; exec sleep 1000"])
    pid = wait_for("the worker",
                   lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    subprocess.run(["kill", "-9", pid.strip()], check=True)
    assert job.wait() == 128 + signal.SIGKILL
    assert "killed by SIGKILL" in job.err()
    assert "memory" not in job.err()
