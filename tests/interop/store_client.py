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
PATIENCE = timedelta(minutes=5)  # longer than anything that works takes


@contextlib.contextmanager
def running(command):
    """Yields the process of a server that prints its port, which is then `port`."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        server.port = int(server.stdout.readline())
        yield server
    finally:
        server.stdin.close()
        code = server.wait(PATIENCE.total_seconds())
        server.stdout.close()
    assert code == 0


def our_store():
    return running([BUILD / "bin" / "store_server"])


PYTORCH_STORE = """
import sys, torch.distributed as dist
def store(): return dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
now = store()
print(now.port, flush=True)
for line in sys.stdin:
    now = store()
    print(now.port, flush=True)
"""


def pytorch_store():
    """PyTorch's own server (libuv) in place of ours."""
    return running([sys.executable, "-c", PYTORCH_STORE])


def renew(server):
    """Makes the server start again with an empty store."""
    server.stdin.write("renew\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    if answer != "renewed\n":
        server.port = int(answer)


def connect(port, timeout=PATIENCE):
    return dist.TCPStore(
        "127.0.0.1", port, None, False, timeout=timeout, wait_for_workers=False, use_libuv=True
    )
