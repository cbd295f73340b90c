"""The GPUs that programs see here, counted without CUDA, and ranks on them."""

import os
import re
from pathlib import Path

import pytest


def visible_gpus():
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = len([node for node in Path("/dev").glob("nvidia[0-9]*")])
    if listed is None or there == 0:
        return there
    return min(there, len([one for one in listed.split(",") if one.strip()]))


def first_gpu():
    """The value of CUDA_VISIBLE_DEVICES with which only the first GPU is seen."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() or "0"


def on_one_gpu(command):
    """The command of a rank that shares the first GPU with others. NCCL does not allow that for
    ranks of one host, so each pretends to be alone on a host of its own."""
    own = 'NCCL_HOSTID=host-$RANK LOCAL_RANK=0 CUDA_VISIBLE_DEVICES="$0"'
    return ["sh", "-c", f'export {own}; exec "$@"', first_gpu(), *command]


def placed(command, ranks=2):
    """The number of workers to start, and their command: one for each GPU, or `ranks` that share
    the only one."""
    gpus = visible_gpus()
    return (gpus, [*command]) if gpus > 1 else (ranks, on_one_gpu(command))


def ended_well(agent, limit=None):
    """Waits for success. Skips the test if NCCL does not let two ranks share a GPU."""
    code = agent.wait(limit)
    if code != 0 and re.search("Duplicate GPU|same GPU", agent.err() + agent.out()):
        pytest.skip("this NCCL lets no two ranks share a GPU")
    assert code == 0, agent.err() + agent.out()
