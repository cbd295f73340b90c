"""Ports for tests that must name one before anybody listens, or listen again where they did before.

One that the kernel picks is only free for the moment: it may have become somebody's own end of a
connection by the time that it is used. These lie below those that the kernel hands out
(ip_local_port_range) and those that ddprun looks for (from 10,000), and each is kept for this
process, until it ends, among all that run tests on this machine.
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
held = []  # locked files: as long as they are open, their ports are ours


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
                continue  # another test's, or somebody else's
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
            # Words of four bytes in the order of this machine.
            parts = [bytes.fromhex(address[at:at + 8])[::-1] for at in range(0, len(address), 8)]
            found.append((socket.inet_ntop(family, b"".join(parts)), int(port, 16)))
    return found
