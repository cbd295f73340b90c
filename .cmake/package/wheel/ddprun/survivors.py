"""Workers that live on from round to round: launcher/README.md, "Survivors".

A thread hears the agent's word that the round is over, and ends the collectives in which the script
waits; the script's own thread leaves the round, waits for the next, and calls the function again.
"""

import os
import socket
import sys
import threading

PACKET_BYTES = 64
# An error of a collective may be there before the word that a peer has died. One that has another
# reason is told of so much later.
PATIENCE_S = 5.0


class Link:
    """To the agent that has started this process."""

    def __init__(self, connection):
        self.connection = connection
        self.is_over = threading.Event()  # the round, by the agent's word or as it has hung up
        self.is_left = False  # the script's thread is in no collective any more
        self.has_hung_up = False
        self.listen()

    @classmethod
    def open(cls):
        """None: nobody lets this process live on."""
        name = os.environ.get("DDPRUN_SURVIVORS")
        if not name:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            connection.connect("\0" + name)
            connection.send(b"stay")
            if connection.recv(PACKET_BYTES) == b"ok":
                return cls(connection)
        except OSError:
            pass
        connection.close()
        return None

    def listen(self):
        self.is_over.clear()
        self.is_left = False
        threading.Thread(target=self.await_leave, name="ddprun-survivors", daemon=True).start()

    def await_leave(self):
        try:
            self.has_hung_up = self.connection.recv(PACKET_BYTES) != b"leave"
        except OSError:
            self.has_hung_up = True
        self.is_over.set()
        if not self.has_hung_up and not self.is_left:
            abort_groups()

    def is_to_leave(self, error):
        """Whether this error is one of the round's end, and not the script's own."""
        waits = isinstance(error, (RuntimeError, OSError, TimeoutError))
        self.is_over.wait(PATIENCE_S if waits else 0)
        return self.is_over.is_set() and not self.has_hung_up

    def next_round(self):
        """Leaves this one; back with the environment of the next."""
        self.is_left = True
        destroy_groups()
        self.connection.send(b"left")
        _, descriptors, _, _ = socket.recv_fds(self.connection, PACKET_BYTES, 1)
        if not descriptors:
            sys.exit("ddprun: no other round came")
        with os.fdopen(descriptors[0], "rb") as file:
            file.seek(0)
            for entry in file.read().split(b"\0")[:-1]:
                name, is_set, value = entry.partition(b"=")
                if is_set:
                    os.environb[name] = value
                else:
                    os.environb.pop(name, None)
        self.listen()
        self.connection.send(b"begun")


def distributed():
    """torch.distributed where the script has loaded it, and is in a group."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() \
        else None


def abort_groups():
    """A collective that waits for a peer that is gone raises."""
    dist = distributed()
    if dist is None:
        return
    for group in list(dist.distributed_c10d._world.pg_map):
        try:
            group.abort()
        except Exception:  # a backend that cannot: its peers' connections end, too
            pass


def destroy_groups():
    dist = distributed()
    if dist is not None:
        dist.destroy_process_group()


def survive(train):
    """See ddprun.survive."""
    link = Link.open()
    while True:
        try:
            return train()
        except Exception as error:
            if link is None or not link.is_to_leave(error):
                raise
        link.next_round()
