"""What differs between the supported versions of PyTorch (tests/torch_versions.txt)."""

import re

import torch

VERSION = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
SINCE = {
    # Client and server know BARRIER (18), and Store has barrier().
    "barrier": (2, 12),
    # TORCHELASTIC_USE_AGENT_STORE makes rank 0 a client of a tcp:// address only if that is
    # MASTER_ADDR:MASTER_PORT (if the address is spelled otherwise: only if the port is taken). In
    # earlier versions it does so for every tcp:// address.
    "agent store by address": (2, 14),
    # The backend "nccl" is ProcessGroupNCCL2, unless TORCH_DIST_USE_NCCL2=0; "nccl-legacy" is
    # ProcessGroupNCCL.
    "nccl2 by default": (2, 15),
}


def has(what):
    return SINCE[what] <= VERSION
