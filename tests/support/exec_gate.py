"""Blocks the execution or the reading of a file, like a file system that does not answer (fanotify,
root only). A process that waits there is in state D.

Unlike with a dead NFS server, a process that is blocked there can be killed.
"""

import contextlib
import ctypes
import os
import select
import struct

import pytest

from tests.support.cluster import WORKER

CLASS_CONTENT, CLOEXEC, NONBLOCK = 0x4, 0x1, 0x2
MARK_ADD = 0x1
OPEN_EXEC_PERM = 0x40000
ACCESS_PERM = 0x20000
ALLOW = 0x1
AT_FDCWD = -100
EVENT = struct.Struct("=IBBHQii")


class ExecGate:
    """A process that executes `path` waits for `let_pass`. `unavailable` says why there is no gate.
    """

    unavailable = None
    asks = OPEN_EXEC_PERM

    def __init__(self, path):
        system = ctypes.CDLL(None, use_errno=True)
        self.handle = system.fanotify_init(CLASS_CONTENT | CLOEXEC | NONBLOCK, os.O_RDONLY)
        if self.handle < 0:
            self.unavailable = f"fanotify_init: {os.strerror(ctypes.get_errno())} (needs root)"
            return
        if system.fanotify_mark(self.handle, MARK_ADD, ctypes.c_uint64(self.asks), AT_FDCWD,
                                os.fsencode(path)) != 0:
            self.unavailable = f"fanotify_mark {self.asks:#x}: {os.strerror(ctypes.get_errno())}"

    def waits(self):
        """True if a process waits at the gate."""
        return bool(select.select([self.handle], [], [], 0)[0])

    def waiting(self):
        """Returns the process that waits at the gate. It stays there until the gate is closed."""
        *_, opened, pid = EVENT.unpack(os.read(self.handle, EVENT.size))
        os.close(opened)
        return pid

    def let_pass(self, limit):
        """Lets the next process pass, which must come within `limit` seconds."""
        if not select.select([self.handle], [], [], limit)[0]:
            raise AssertionError(f"no process came for the file within {limit:.0f} s")
        *_, opened, _ = EVENT.unpack(os.read(self.handle, EVENT.size))
        os.write(self.handle, struct.pack("=iI", opened, ALLOW))
        os.close(opened)

    def close(self):
        if self.handle >= 0:
            os.close(self.handle)  # lets all pass
            self.handle = -1


class ReadGate(ExecGate):
    """A process that reads from `path` waits for `let_pass`."""

    asks = ACCESS_PERM


@contextlib.contextmanager
def opened(kind, path):
    """A gate of this kind at this file; the test is skipped if none can be had here."""
    gate = kind(path)
    try:
        if gate.unavailable:
            pytest.skip(gate.unavailable)
        yield gate
    finally:
        gate.close()


@contextlib.contextmanager
def gated_worker(folder):
    """A worker whose exec waits for the test each time, and the gate at which it waits."""
    program = folder / "gated.sh"
    program.write_text(f"#!/bin/bash\n. {WORKER}\n")
    program.chmod(0o755)
    with opened(ExecGate, program) as gate:
        yield program, gate
