"""The process group that lives on with its worker: launcher/survivors/README.md, "Keeping the
process group".

torch 2.14 and newer can connect a group again, to other ranks (`enable_reconfigure`). It needs
three things from elsewhere: a handle of each rank, in the order of the ranks; a number that was not
used before; and a store that all ranks reach. The round provides them: its ranks, its number, and
its store, through which the handles are exchanged.

From the end of a round until it is connected again, torch knows no group: scripts ask
is_initialized() before they make one, and what they would do with the old connections fails. One
that a script makes itself meanwhile has the name that it has on the ranks that were started, and is
destroyed without the one that is kept.
"""

import os
import sys
import threading
import weakref

# Those with which this was tried. torch has the same call for NCCL's groups.
BACKENDS = ("gloo",)
CALLS_MAX = 1 << 16  # in a round
# Where torch keeps what it knows of a group. Besides these it has lists of groups by tag, and
# groups by name in its C++ part. Another version of torch may not have all of them.
TABLES = ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "pg_to_tag",
          "pg_flight_recorder_hooks")

# Held while a group is made or connected: what ends the waits of a round must not touch it then.
connecting = threading.Lock()
# How often a group was connected in this process: after each time its connections are other ones.
generation = 0
kept = None  # a Kept, once a group was made here
store = None  # a RoundStore, once a group was made here; all groups share it


class Kept:
    """A default group that can be connected again, and with which arguments it was made."""

    def __init__(self, group, asked, group_count):
        self.group = weakref.ref(group)
        self.asked = asked
        self.group_count = group_count  # the number that torch gives to the next group
        self.is_connected = False  # it has been, in some round
        self.hidden = None  # a Hidden, while torch does not know the group
        self.hook = sys.excepthook  # torch's: it writes the rank before the lines of an error

    def hide(self, dist):
        """And destroys all others."""
        for group in list(dist.distributed_c10d._world.pg_map):
            if group is not dist.group.WORLD:
                dist.destroy_process_group(group)
        self.hidden = Hidden(dist)

    def show(self, dist):
        """Unless the script has made another default group since: then this one is let go."""
        hidden, self.hidden = self.hidden, None
        if hidden is not None and not dist.is_initialized():
            hidden.show(dist)
            # Names of groups contain this count. The ranks that are started begin with this one.
            dist.distributed_c10d._world.group_count = self.group_count

    def name_rank(self, rank):
        """In the round before this process may have been another rank. The hook keeps the words for
        life."""
        names = getattr(getattr(self.hook, "__code__", None), "co_freevars", ())
        if "excepthook_prefix" in names:
            self.hook.__closure__[names.index("excepthook_prefix")].cell_contents = f"[rank{rank}]"


class Hidden:
    """The default group, taken out of all that torch knows; nothing else is left there."""

    def __init__(self, dist):
        world = dist.distributed_c10d._world
        self.group = dist.group.WORLD
        world.pg_coalesce_state.pop(self.group, None)
        found = {name: getattr(world, name, {}) for name in TABLES}
        self.entries = {name: table.pop(self.group) for name, table in found.items()
                        if self.group in table}
        self.tags = [tag for tag, groups in world.tags_to_pg.items() if self.group in groups]
        for tag in self.tags:
            world.tags_to_pg[tag].remove(self.group)
        core()._unregister_process_group(self.group.group_name)
        world.group_count = 0  # the number in the name of a default group, also on other ranks
        dist.distributed_c10d._update_default_pg(None)

    def show(self, dist):
        world = dist.distributed_c10d._world
        for name, entry in self.entries.items():
            getattr(world, name)[self.group] = entry
        for tag in self.tags:
            world.tags_to_pg.setdefault(tag, []).append(self.group)
        core()._register_process_group(self.group.group_name, self.group)
        dist.distributed_c10d._update_default_pg(self.group)


class Numbers:
    """A new number for each call, the same on all ranks of the round."""

    def __init__(self):
        self.round = None
        self.calls = 0

    def next(self):
        current = int(os.environ["DDPRUN_ROUND"])
        self.calls = self.calls + 1 if current == self.round else 0
        self.round = current
        return current * CALLS_MAX + self.calls


numbers = Numbers()


def make_store(dist):
    """A store for a group that outlives a round: it passes everything on to the store of the round
    in which the process is."""

    class RoundStore(dist.Store):
        def __init__(self):
            super().__init__()
            self.current = None

        def set(self, key, value):
            self.current.set(key, value)

        def get(self, key):
            return self.current.get(key)

        def compare_set(self, key, expected, desired):
            return self.current.compare_set(key, expected, desired)

        def add(self, key, amount):
            return self.current.add(key, amount)

        def check(self, keys):
            return self.current.check(keys)

        def wait(self, keys, *timeout):
            self.current.wait(keys, *timeout)

        def append(self, key, value):
            self.current.append(key, value)

        def multi_get(self, keys):
            return self.current.multi_get(keys)

        def multi_set(self, keys, values):
            self.current.multi_set(keys, values)

        def has_extended_api(self):
            return self.current.has_extended_api()

        def delete_key(self, key):
            return self.current.delete_key(key)

        def num_keys(self):
            return self.current.num_keys()

        def clone(self):
            return self

        # The names by which torch calls the two.
        deleteKey = delete_key  # noqa: N815
        getNumKeys = num_keys  # noqa: N815

    return RoundStore()


def can_reconnect(dist, backend, others):
    """Whether the ranks of this round exchange handles. The answer is the same on all of them,
    whether they have lived on or were started. DETAIL wraps groups into those that have no handle.
    """
    return (hasattr(dist, "_reconfigure") and backend in BACKENDS and not others
            and dist.get_debug_level() != dist.DebugLevel.DETAIL and "DDPRUN_ROUND" in os.environ)


def core():
    import torch
    return torch._C._distributed_c10d


def current(dist):
    """The Kept of the default group; none if that is hidden, or the script has destroyed or made it
    itself."""
    is_there = kept is not None and dist.is_initialized() and kept.group() is dist.group.WORLD
    return kept if is_there else None


def init_process_group(backend, timeout, others):
    """See ddprun.init_process_group."""
    import torch.distributed as dist
    if kept is not None:
        kept.show(dist)
    one = current(dist)
    reconnects = can_reconnect(dist, backend, others)
    if one is not None and (not reconnects or one.asked != (backend, timeout)):
        dist.destroy_process_group()
    if not reconnects:
        return dist.init_process_group(backend, timeout=timeout, **others)
    with connecting:
        try:
            connect(dist, backend, timeout)
        except BaseException:
            # A group that is not connected cannot be used, not even by what ends waits.
            if current(dist) is not None:
                kept.hide(dist) if kept.is_connected else dist.destroy_process_group()
            raise
    # Until a survivor calls a collective, torch's record says how many it has called in the round
    # before, which looks as if it were ahead of the others.
    dist.barrier()


def connect(dist, backend, timeout):
    global generation, kept, store
    from torch.distributed.constants import default_pg_timeout
    from torch.distributed.rendezvous import rendezvous
    limit = default_pg_timeout if timeout is None else timeout
    if store is None:
        store = make_store(dist)
    store.current = None  # first: if rank 0 serves the store itself, that gives its port back
    store.current, rank, world_size = next(rendezvous("env://", timeout=limit))
    store.current.set_timeout(limit)
    if current(dist) is None:
        dist.init_process_group(backend, timeout=timeout, store=store, rank=rank,
                                world_size=world_size, enable_reconfigure=True)
        kept = Kept(dist.group.WORLD, (backend, timeout), dist.distributed_c10d._world.group_count)
    number = numbers.next()
    keys = [f"ddprun/groups/{number}/{each}" for each in range(world_size)]
    store.current.set(keys[rank], dist._get_reconfigure_handle())
    handles = [handle.decode() for handle in store.current.multi_get(keys)]
    dist._reconfigure(number, handles, timeout=limit).wait()
    # The group counts its collectives from the start again. One that the last round has cut short
    # would stay in the record as pending, where it looks like a hang. torch 2.14 cannot forget it.
    getattr(core(), "_reset_fr_trace", int)()
    dist.distributed_c10d._world.pg_group_ranks[dist.group.WORLD] = {
        each: each for each in range(world_size)}
    dist.distributed_c10d._update_default_pg(dist.group.WORLD)  # its rank may be another one
    kept.name_rank(rank)
    kept.is_connected = True
    generation += 1


def keep(dist):
    """Called when the round is left. True: the default group lives on, hidden, and all others are
    destroyed."""
    one = current(dist)
    if one is None or not one.is_connected:
        return False
    one.hide(dist)
    return True
