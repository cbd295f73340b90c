"""Workers that live on from round to round: launcher/README.md, "Survivors".

A thread hears the agent's word that the round is over, and ends what the script waits for: its
collectives, and the round's store while a group is being made. The script's own thread then leaves
the round, waits for the next, and calls the function again.
"""

import datetime
import ipaddress
import os
import socket
import sys
import threading
import traceback

PACKET_BYTES = 64
# Until the script has left, it may begin another wait: a group of which it was not in yet.
PAUSE_S = 0.05
NEVER_SENT = 0x0dd9  # a tag of messages


class Round:
    """What the agent says of one round, heard by a thread of its own."""

    def __init__(self, connection):
        self.connection = connection
        self.is_over = threading.Event()  # by the agent's word, or as it has hung up
        self.is_to_leave = False
        self.has_left = threading.Event()  # the script waits for nothing of it any more
        self.thread = threading.Thread(target=self.hear, name="ddprun-survivors", daemon=True)
        self.thread.start()

    def hear(self):
        try:
            self.is_to_leave = self.connection.recv(PACKET_BYTES) == b"leave"
        except OSError:
            pass
        self.is_over.set()
        if not self.is_to_leave or self.has_left.is_set():
            return
        store = addresses_of_store()
        aborted = []
        while True:
            try:
                end_waits(aborted, store)
            except Exception:  # the script is making or destroying a group: at the next look
                pass
            if self.has_left.wait(PAUSE_S):
                return

    def leave(self):
        self.has_left.set()
        self.thread.join()


class Link:
    """To the agent that has started this process."""

    def __init__(self, connection):
        self.connection = connection
        self.process = os.getpid()  # a fork has nothing to say on it
        self.round = Round(connection)

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

    def is_end_of_round(self, error):
        """Whether this error is one of the round's end, and not the script's own."""
        if os.getpid() != self.process or not can_leave():
            return False
        waits = isinstance(error, (RuntimeError, OSError)) and not is_of_the_gpu(error)
        self.round.is_over.wait(patience_s() if waits else 0)
        return self.round.is_over.is_set() and self.round.is_to_leave

    def next_round(self):
        """Leaves this one; back with the environment of the next."""
        self.round.leave()
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
        self.round = Round(self.connection)
        self.connection.send(b"begun")

    def close(self):
        """From now on a stop is SIGTERM, as for any worker."""
        if os.getpid() != self.process:
            return
        self.round.has_left.set()
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.round.thread.join()
        self.connection.close()


def patience_s():
    """An error of a collective may be there before the word that a peer has died. The launcher says
    how long that may take; for so long an error of another reason is held back, too."""
    return float(os.environ.get("DDPRUN_SURVIVORS_PATIENCE", "15"))


def distributed():
    """torch.distributed where the script has loaded it, and is in a group."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() \
        else None


def groups_of(dist):
    return list(dist.distributed_c10d._world.pg_map)


def can_leave():
    """With NCCL a stuck collective that is aborted lets kernels behind it run on what it has half
    reduced, an optimizer's among them: such a worker starts afresh."""
    dist = distributed()
    return dist is None or not any("nccl" in dist.get_backend(group) for group in groups_of(dist))


def is_of_the_gpu(error):
    """Its context is of no use any more, or memory is short: no peer's fault."""
    torch = sys.modules.get("torch")
    kinds = tuple(filter(None, (getattr(torch, name, None)
                                for name in ("OutOfMemoryError", "AcceleratorError"))))
    return isinstance(error, kinds)


def end_waits(aborted, store):
    """A collective that waits for a peer that is gone raises, and so does a request to the store,
    which would wait for what that peer was to say. `aborted` are the groups of earlier calls."""
    if not can_leave():
        return
    dist = distributed()
    for group in groups_of(dist) if dist is not None else ():
        if any(group is one for one in aborted):
            continue
        aborted.append(group)
        try:
            group.abort()
        except Exception:  # a backend that cannot: its peers' connections end, too
            pass
        if dist.get_backend(group) == "gloo":
            let_go_of_gloo(group)
    end_connections(store)


def let_go_of_gloo(group):
    """It has no abort, and what waits for a rank that lives, or whose host has fallen silent, would
    wait on. But it closes all connections of a group when one wait has been in vain: so this
    process waits a moment for what nobody sends."""
    torch = sys.modules["torch"]
    for peer in range(group.size()):
        if peer == group.rank():
            continue
        try:
            group.recv([torch.zeros(1)], peer, NEVER_SENT).wait(datetime.timedelta(milliseconds=1))
        except Exception as error:
            if "Timed out" in str(error):  # else that one was lost before
                return


def addresses_of_store():
    """Of the round's store, as getpeername() shows them."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        return {plain_address(address) for *_, address in found}
    except (OSError, TypeError, ValueError):
        return set()


def plain_address(address):
    """Host and port; of an IPv4 address that is written as one of IPv6, the former."""
    host = ipaddress.ip_address(address[0].partition("%")[0])
    return getattr(host, "ipv4_mapped", None) or host, address[1]


def end_connections(peers):
    """Of this process to any of them. Torch's client of the store, and the daemon's answer that it
    waits for, end no other way: the store serves the round until every worker has left it."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                is_internet = connection.family in (socket.AF_INET, socket.AF_INET6)
                if is_internet and plain_address(connection.getpeername()) in peers:
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:  # closed meanwhile, or not connected
            pass


def destroy_groups():
    dist = distributed()
    if dist is not None:
        return dist.destroy_process_group()
    module = sys.modules.get("torch.distributed")
    if module is not None and module.is_available():
        # It counts groups by the attempts to make one, and all ranks have to use the same number.
        module.distributed_c10d._world.group_count = 0


def survive(train):
    """See ddprun.survive."""
    link = Link.open()
    if link is None:
        return train()
    try:
        while True:
            try:
                return train()
            except Exception as error:
                if not link.is_end_of_round(error):
                    raise
                told = "".join(traceback.format_exception_only(error)).strip()
            print(f"ddprun: this worker leaves its round and lives on: {told}", file=sys.stderr,
                  flush=True)
            link.next_round()
    finally:
        link.close()
