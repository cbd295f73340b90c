"""What differs between the versions of PyTorch that are supported (tests/torch_versions.txt)."""

import re

import torch

VERSION = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
SINCE = {
    # Client and server know BARRIER (18), and Store has barrier().
    "barrier": (2, 12),
    # TORCHELASTIC_USE_AGENT_STORE makes rank 0 a client of a tcp:// address only where that is
    # MASTER_ADDR:MASTER_PORT (of another spelling of the address: where the port is taken). Before,
    # of every tcp:// address.
    "agent store by address": (2, 14),
    # The backend "nccl" is ProcessGroupNCCL2, unless TORCH_DIST_USE_NCCL2=0; "nccl-legacy" is
    # ProcessGroupNCCL.
    "nccl2 by default": (2, 15),
}


def has(what):
    return SINCE[what] <= VERSION
