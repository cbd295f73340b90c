"""Ports for tests that must name one before it is listened on, or listen on it again later.

A port that the kernel picks may have become some connection's own end by the time it is used. The
ports here are below those that the kernel hands out (ip_local_port_range) and those that ddprun
searches (from 10,000). Each is reserved for this process until it ends, among all processes that
run tests on this machine.
"""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 4000, 9999
FOLDER = Path(tempfile.gettempdir(), f"ddprun-test-ports-{os.getuid()}")
held = []  # locked files, each of which reserves its port while it is open


def free_port():
    FOLDER.mkdir(exist_ok=True)
    for port in random.sample(range(FIRST, LAST + 1), LAST + 1 - FIRST):
        with contextlib.ExitStack() as attempt:
            file = attempt.enter_context(open(FOLDER / str(port), "w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.create_server(("", port), family=socket.AF_INET):
                    pass
            except OSError:
                continue  # another test or program has it
            attempt.pop_all()
            held.append(file)
            return port
    raise RuntimeError(f"no port from {FIRST} to {LAST} is free")


def listening(pid):
    """(address, port) of each TCP socket on which this process listens."""
    own = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(os.readlink(file))
    found = []
    for family, name in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            address, _, port = words[1].partition(":")
            if words[3] != "0A" or f"socket:[{words[9]}]" not in own:
                continue
            # Four-byte words in this machine's byte order.
            parts = [bytes.fromhex(address[at:at + 8])[::-1] for at in range(0, len(address), 8)]
            found.append((socket.inet_ntop(family, b"".join(parts)), int(port, 16)))
    return found
