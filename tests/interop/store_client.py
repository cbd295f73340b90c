"""What the interop tests share: a store of ours or of PyTorch's, and PyTorch's client for it."""

import contextlib
import os
import pathlib
import subprocess
import sys
from datetime import timedelta

import torch.distributed as dist

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDPRUN_BUILD", ROOT / "build"))
PATIENCE = timedelta(seconds=60)  # longer than anything that works takes


@contextlib.contextmanager
def our_store():
    """Yields the process of a store of ours, with its port as `port`."""
    server = subprocess.Popen(
        [BUILD / "bin" / "store_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        server.port = int(server.stdout.readline())
        yield server
    finally:
        server.stdin.close()
        code = server.wait(timeout=60)
        server.stdout.close()
    assert code == 0


@contextlib.contextmanager
def pytorch_store():
    """The same for PyTorch's own server (libuv), in a process of its own."""
    program = (
        "import sys, torch.distributed as d\n"
        "s = d.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)\n"
        "print(s.port, flush=True)\n"
        "sys.stdin.read()\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        server.port = int(server.stdout.readline())
        yield server
    finally:
        server.stdin.close()
        server.wait(timeout=60)
        server.stdout.close()


def connect(port, timeout=PATIENCE):
    return dist.TCPStore(
        "127.0.0.1", port, None, False, timeout=timeout, wait_for_workers=False, use_libuv=True
    )
