"""Workers that live on from round to round: launcher/survivors/README.md.

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

from ddprun import groups, nccl

PACKET_BYTES = 64
# Until the script has left, it may begin another wait: a group of which it was not in yet.
PAUSE_S = 0.05
NEVER_SENT = 0x0dd9  # a tag of messages


class Round:
    """What the agent says of one round, heard by a thread of its own."""

    def __init__(self, connection, may_abort_nccl):
        self.connection = connection
        self.may_abort_nccl = may_abort_nccl
        self.aborted = []  # groups, and which of their connections (groups.generation)
        self.has_aborted_nccl = False  # true before the first abort of one begins
        self.has_stepped = False  # all that came before an optimizer's step was whole
        self.is_over = threading.Event()  # by the agent's word, or as it has hung up
        self.is_to_leave = False
        self.has_left = threading.Event()  # the script waits for nothing of it any more
        self.thread = threading.Thread(target=self.hear, name="ddprun-survivors", daemon=True)
        self.thread.start()

    def hear(self):
        store = StoreLookup()
        store.addresses()  # asked for now: it may take long, and the time to leave is short
        try:
            self.is_to_leave = self.connection.recv(PACKET_BYTES) == b"leave"
        except OSError:
            pass
        self.is_over.set()
        if not self.is_to_leave or self.has_left.is_set():
            return
        while True:
            try:
                self.end_waits(store.addresses())
            except Exception:  # the script is making or destroying a group: at the next look
                pass
            if self.has_left.wait(PAUSE_S):
                return

    def can_leave(self):
        """With NCCL only where the script has said what its state is."""
        return self.may_abort_nccl or not has_nccl()

    def end_waits(self, store):
        """A collective that waits for a peer that is gone ends, and so does a request to the store,
        which would wait for what that peer was to say."""
        if not self.can_leave():
            return
        self.abort_groups()
        end_connections(store)

    def abort_groups(self):
        """Those that have not been aborted yet, as they are connected now."""
        if not groups.connecting.acquire(blocking=False):  # it asks the store: at the next look
            return
        try:
            self.abort_connected()
        finally:
            groups.connecting.release()

    def abort_connected(self):
        dist = distributed()
        left = {}
        for group in groups_of(dist) if dist is not None else ():
            if not any(group is one and groups.generation == generation
                       for one, generation in self.aborted):
                try:
                    left[group] = dist.get_backend_config(group)
                except Exception:  # it is being made or destroyed: at the next look
                    pass
        self.has_aborted_nccl |= any("nccl" in backends for backends in left.values())
        abort_all(list(left))
        for group, backends in left.items():
            if "gloo" in backends:
                let_go_of_gloo(group)
        self.aborted += [(group, groups.generation) for group in left]

    def leave(self):
        self.has_left.set()
        self.thread.join()
        if has_nccl():  # a kernel that is stuck would hold up all that follows
            self.abort_groups()


class Link:
    """To the agent that has started this process."""

    current = None  # the one that survive() has opened, while it runs

    def __init__(self, connection, state):
        self.connection = connection
        self.process = os.getpid()  # a fork has nothing to say on it
        self.state = state
        self.may_abort_nccl = state is not None
        self.round = Round(connection, self.may_abort_nccl)
        if self.may_abort_nccl:
            os.environ.update(nccl.ENVIRONMENT)
        self.gate = nccl.Gate(state, lambda: self.round.has_aborted_nccl, has_nccl, self.note_step)

    @classmethod
    def open(cls, state):
        """None: nobody lets this process live on."""
        name = os.environ.get("DDPRUN_SURVIVORS")
        if not name:
            return None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            connection.connect("\0" + name)
            connection.send(b"stay")
            if connection.recv(PACKET_BYTES) == b"ok":
                return cls(connection, state)
        except OSError:
            pass
        connection.close()
        return None

    def note_step(self):
        self.round.has_stepped = True

    def has_lost_state(self):
        """Before the first step of a round collectives write to all of it: what others send is
        loaded, and DistributedDataParallel's constructor makes all ranks equal. Where several
        optimizers make a step together, some may have made it and others not."""
        return self.state == nccl.STEPPED and has_nccl() and (
            not self.round.has_stepped or self.gate.is_within_cycle())

    def is_end_of_round(self, error):
        """Whether this error is one of the round's end, and not the script's own."""
        if os.getpid() != self.process or not self.round.can_leave():
            return False
        waits = isinstance(error, (RuntimeError, OSError)) and not is_of_the_gpu(error)
        self.round.is_over.wait(patience_s() if waits else 0)
        if not self.round.is_over.is_set() or not self.round.is_to_leave:
            return False
        if self.has_lost_state():
            say("this worker starts again: the round ended before its first optimizer steps, or "
                "between those of two optimizers, so what it has may be half written")
            return False
        return True

    def next_round(self):
        """Leaves this one; back with the environment of the next."""
        self.round.leave()
        nccl.wait_for_gpus()
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
        self.gate.begin_round()
        self.round = Round(self.connection, self.may_abort_nccl)
        self.connection.send(b"begun")

    def close(self):
        """From now on a stop is SIGTERM, as for any worker."""
        Link.current = None
        if os.getpid() != self.process:
            return
        self.round.has_left.set()
        self.gate.remove()
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


def has_nccl():
    dist = distributed()
    return dist is not None and any(nccl.is_in(dist, group) for group in groups_of(dist))


def abort_all(groups):
    """All at once: NCCL's abort of one waits for its kernels, which may wait behind another's."""
    threads = []
    for group in groups:
        thread = threading.Thread(target=abort, args=[group], daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there may be no more threads: when the others are under way
            continue
        threads.append((group, thread))
    for group in groups:
        if not any(group is one for one, _ in threads):
            abort(group)
    for _, thread in threads:
        thread.join()


def abort(group):
    try:
        group.abort()
    except Exception:  # a backend that cannot: its peers' connections end, too
        pass


def is_of_the_gpu(error):
    """Its context is of no use any more, or memory is short: no peer's fault."""
    torch = sys.modules.get("torch")
    kinds = tuple(filter(None, (getattr(torch, name, None)
                                for name in ("OutOfMemoryError", "AcceleratorError"))))
    return isinstance(error, kinds)


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


class StoreLookup:
    """The addresses of the round's store. A thread of its own asks for them: the name service may
    take long, and neither the word to leave nor the end of the script waits for it."""

    def __init__(self):
        self.name = None  # that was asked for last
        self.found = set()
        self.thread = None

    def addresses(self):
        """What is known by now. If nothing was found, or the script has set another name since,
        the name service is asked again."""
        name = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
        is_asking = self.thread is not None and self.thread.is_alive()
        if not is_asking and (name != self.name or not self.found):
            self.name, self.found = name, set()
            self.thread = threading.Thread(target=self.ask, args=name, daemon=True)
            try:
                self.thread.start()
            except RuntimeError:  # there may be no more threads: at the next look
                self.thread = None
        return self.found

    def ask(self, host, port):
        self.found = addresses_of(host, port)


def addresses_of(host, port):
    """As getpeername() shows them."""
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
    """But for one that lives on with its process, and can be connected anew."""
    dist = distributed()
    if dist is not None:
        try:
            if has_nccl() or not groups.keep(dist):
                dist.destroy_process_group()
            return
        except RuntimeError:
            if not has_nccl():
                raise
            # It flushes what has been aborted: this one only forgets.
            return dist.distributed_c10d._abort_process_group()
    module = sys.modules.get("torch.distributed")
    if module is not None and module.is_available():
        # It counts groups by the attempts to make one, and all ranks have to use the same number.
        module.distributed_c10d._world.group_count = 0


def survive(train, state=None):
    """See ddprun.survive."""
    nccl.check(state)
    link = Link.open(state)
    if link is None:
        return train()
    Link.current = link
    try:
        while True:
            try:
                result = train()
                if not link.round.has_aborted_nccl:
                    return result
                raise nccl.RoundIsOver("train() returned after its collectives were aborted")
            except Exception as error:
                if not link.is_end_of_round(error):
                    raise
                told = "".join(traceback.format_exception_only(error)).strip()
            say(f"this worker leaves its round and lives on: {told}")
            link.next_round()
    finally:
        link.close()


def settle():
    """See ddprun.settle."""
    if Link.current is not None:
        Link.current.gate.pass_through(nccl.wait_for_gpus)


def say(what):
    print(f"ddprun: {what}", file=sys.stderr, flush=True)
