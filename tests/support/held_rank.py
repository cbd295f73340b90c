"""A worker that cannot run ahead of its test.

The output of one rank of the first round goes through the smallest possible pipe, which only the
test reads. If the test stops reading, the rank soon blocks, and with it all ranks that wait for its
gradients: what it prints of its samples fills the pipe within an epoch or two.
"""

import fcntl
import os
import re

from tests.support.cluster import variables_of, wait_for

F_SETPIPE_SZ = 1031
BYTES = 4096

SCRIPT = """#!/bin/sh
# The command; when it is this rank before any restart, into the pipe.
if [ "$RANK $TORCHELASTIC_RESTART_COUNT" = "{rank} 0" ]; then
  exec "$@" --tell-samples >{pipe}
fi
exec "$@"
"""


class HeldRank:
    def __init__(self, cluster, rank):
        self.cluster, self.rank = cluster, rank
        pipe = cluster.folder / "held"
        os.mkfifo(pipe)
        self.handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.handle, F_SETPIPE_SZ, BYTES)
        self.script = cluster.folder / "held.sh"
        self.script.write_text(SCRIPT.format(rank=rank, pipe=pipe))
        self.script.chmod(0o755)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.handle)

    def command(self, *words):
        """The command for the launcher, after its options."""
        return ["--no-python", self.script, *words]

    def read(self):
        try:
            self.text += os.read(self.handle, BYTES).decode()
        except BlockingIOError:
            pass

    def run_until(self, epoch, limit):
        """Lets the rank run until this epoch is over, and at most a few more."""
        def is_over():
            self.read()
            return re.search(rf"\[rank {self.rank}\] epoch {epoch} \|", self.text)

        wait_for(f"epoch {epoch} of rank {self.rank}", is_over, limit)

    def run_on(self, program, limit):
        """Lets the rank run until this program has ended."""
        def has_ended():
            self.read()
            return not program.running()

        wait_for(f"{program.name} to end", has_ended, limit)

    def pid(self):
        for pid in self.cluster.marked():
            if f"RANK={self.rank}".encode() in variables_of(pid):
                return pid
        raise AssertionError(f"rank {self.rank} has no process: {self.cluster.marked()}")
