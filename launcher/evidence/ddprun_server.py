"""Has PyTorch's worker server listen for the agent as soon as torch.distributed is used.

The server (torch._C._distributed_c10d._WorkerServer, a part of PyTorch) answers over a Unix socket
from threads of its own (pt_workerserver), without the interpreter: which collectives this rank has
called, and which of them have not ended (see worker_server.hpp). It begins when the script has its
first process group: PyTorch's module registers that by a function which it has under a name of its
own, and until then the name stands for ours, which calls it. PyTorch's tables of groups are never
touched, because libraries keep references to them. By then there are other threads of PyTorch, too.

The threads have a table of descriptors of their own, in which there is nothing of the script's: it
sees no socket, and no line of the server's on its stderr; what it closes or forks does not matter
to them, nor do its signals. The server is never taken apart, which would delay the script's end.

The kernel makes that table by copying descriptors, and closes the copies. Some file systems are
told of each close, and write then or wait for a server (NFS, FUSE); if the script has a file of
such a one among those that are copied, there is no server.

Nothing of this is there where PyTorch or the kernel has not what it needs.
"""

import os
import sys

MODULE = "torch.distributed.distributed_c10d"
_TABLE = "_pg_map"
_REGISTER = "_register_process_group"
_SYS_CLOSE_RANGE = 436  # on every processor
_CLOSE_RANGE_UNSHARE = 2
_CLONE_FILES = 0x400
_SIGACTION_BYTES_MAX = 512
_THREADS_MIN = 8  # of the server, which has one for each processor
_THREADS_SPARE = 16
_SHARE = 8  # of what may still be started all ranks of a node take one part in so many
_BEGIN_LIMIT = 5  # seconds; it takes some milliseconds
_COPIED = 64  # descriptors, from 0 on, that close_range() copies although it closes all of them
_STREAMS = 3  # the agent has opened them
# Those that do nothing if a file is closed while others have it open.
_SILENT_FILE_SYSTEMS = frozenset((
    "bcachefs", "btrfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "erofs", "exfat", "ext2",
    "ext3", "ext4", "hugetlbfs", "iso9660", "overlay", "proc", "ramfs", "rootfs", "squashfs",
    "sysfs", "tmpfs", "vfat", "xfs", "zfs"))


class _Registering:
    """In the place of the function that registers a process group, until it has been called."""

    __slots__ = ("_module", "_register", "_open")

    def __init__(self, module, register, opening):
        self._module = module
        self._register = register
        self._open = opening

    def __call__(self, *group, **named):
        # A library may keep this object; afterwards it only passes on what it is given.
        opening, self._open = self._open, None
        if opening is not None:
            if getattr(self._module, _REGISTER, None) is self:
                setattr(self._module, _REGISTER, self._register)
            opening()
        return self._register(*group, **named)


def _text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _threads_left(root=""):
    """How many this user and these cgroups may still have, for each that limits them."""
    for line in _text_of(f"{root}/proc/self/limits").splitlines():
        limit = line.split()[2:3] if line.startswith("Max processes") else []
        if limit and limit[0].isdigit():
            yield int(limit[0])
    for line in _text_of(f"{root}/proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and "pids" not in kinds.split(","):
            continue
        top = f"{root}/sys/fs/cgroup/pids" if kinds else f"{root}/sys/fs/cgroup"
        while True:
            most, now = (_text_of(f"{top}{path}/pids.{one}").strip() for one in ("max", "current"))
            if most.isdigit() and now.isdigit():
                yield int(most) - int(now)
            if not path.strip("/"):
                break
            path = path.rpartition("/")[0]


def _threads_of_server():
    return max(_THREADS_MIN, os.sysconf("SC_NPROCESSORS_ONLN")) + _THREADS_SPARE


def _is_modest(ranks, root=""):
    """Whether what the servers of a node take is little: else the script may lack it later."""
    taken = ranks * _threads_of_server()
    return all(_SHARE * taken <= left for left in _threads_left(root))


def _has_room(thread):
    """Whether the system gives as many threads as the server starts: if one is missing there, the
    process would end."""
    gate, is_over = thread.allocate_lock(), thread.allocate_lock()
    started, ended = [], []

    def wait():
        with gate:
            ended.append(None)
        if len(ended) == len(started):
            is_over.release()

    count = _threads_of_server()
    is_over.acquire()
    with gate:
        try:
            while len(started) < count:
                thread.start_new_thread(wait, ())
                started.append(None)
        except RuntimeError:
            pass
    if started:
        is_over.acquire(timeout=_BEGIN_LIMIT)
    return len(started) == count


def _is_any_close_told(end, root=""):
    """Whether a file system would be told if a copy of one of the script's descriptors below `end`
    were closed. Asks the kernel alone, because a server that is gone answers nobody."""
    kinds = {}
    for line in _text_of(f"{root}/proc/self/mountinfo").splitlines():
        mount, _, of_system = line.partition(" - ")
        kinds[mount.split()[0]] = of_system.split()[0]
    for number in os.listdir(f"{root}/proc/self/fd"):
        if not _STREAMS <= int(number) < end:
            continue
        try:
            target = os.readlink(f"{root}/proc/self/fd/{number}")
        except OSError:
            continue  # that of the listing
        # Pipes, sockets and the like have no path, and memory files are no file system's.
        if not target.startswith("/") or target.startswith("/memfd:"):
            continue
        mounts = [line.split()[1] for line in
                  _text_of(f"{root}/proc/self/fdinfo/{number}").splitlines()
                  if line.startswith("mnt_id:")]
        if not mounts or kinds.get(mounts[0]) not in _SILENT_FILE_SYSTEMS:
            return True
    return False


def _leave_descriptors(libc, ctypes):
    """Gives this thread, and those that it starts, a table without any."""
    if _is_any_close_told(_COPIED):
        return False
    call = (ctypes.c_long(_SYS_CLOSE_RANGE), ctypes.c_uint(0), ctypes.c_uint(0xffffffff))
    if libc.syscall(*call, ctypes.c_uint(_CLOSE_RANGE_UNSHARE)) == 0:
        return True
    # It copies all of them.
    if _is_any_close_told(sys.maxsize) or libc.unshare(_CLONE_FILES) != 0:
        return False
    for number in os.listdir("/proc/thread-self/fd"):
        try:
            os.close(int(number))
        except OSError:
            pass  # that of the listing
    return True


def _begin(server, path, ctypes, signals):
    """In a thread of its own, which ends with it."""
    signals.pthread_sigmask(signals.SIG_BLOCK, signals.valid_signals())
    libc = ctypes.CDLL(None)
    if not _leave_descriptors(libc, ctypes):
        return
    for _ in range(3):
        os.open("/dev/null", os.O_RDWR)
    # It ignores SIGPIPE, which is the script's to decide.
    action = ctypes.create_string_buffer(_SIGACTION_BYTES_MAX)
    is_known = libc.sigaction(signals.SIGPIPE, None, action) == 0
    try:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(server(path)))
    finally:
        if is_known:
            libc.sigaction(signals.SIGPIPE, action, None)


class _Opening:
    def __init__(self, folder):
        import _signal
        import _thread
        self._folder = folder
        self._process = os.getpid()
        self._signals = _signal
        self._thread = _thread
        self._finders = []

    def watch_module(self, module):
        """The module has been loaded, and nobody has used it."""
        register = getattr(module, _REGISTER, None)
        if register is None or getattr(module, _TABLE, None):
            return
        setattr(module, _REGISTER, _Registering(module, register, self._open))

    def watch_finders(self):
        """Comes by when PyTorch is looked for."""
        for finder in list(sys.path_importer_cache.values()):
            if type(finder).__name__ == "FileFinder" and "find_spec" not in vars(finder):
                self._finders.append(finder)
                finder.find_spec = self._finding(finder)

    def _finding(self, finder):
        find = finder.find_spec

        def find_spec(name, target=None):
            spec = find(name, target)
            if name == "torch" and spec is not None:
                self._leave_finders()
                try:
                    for folder in spec.submodule_search_locations or ():
                        self._watch_folder(os.path.join(folder, "distributed"))
                except Exception:
                    pass  # of ours; the script imports what it would without us
            return spec

        return find_spec

    def _leave_finders(self):
        for finder in self._finders:
            vars(finder).pop("find_spec", None)
        self._finders.clear()

    def _watch_folder(self, folder):
        """Its modules are imported one after the other, and the one that we watch is not the last.
        """
        importer = sys.modules["_frozen_importlib_external"].PathFinder
        finder = importer._path_importer_cache(folder)
        if type(finder).__name__ != "FileFinder":
            return
        find = finder.find_spec

        def find_spec(name, target=None):
            module = sys.modules.get(MODULE)
            spec = getattr(module, "__spec__", None)
            if module is not None and not getattr(spec, "_initializing", False):
                self._leave_finders()
                self.watch_module(module)
            return find(name, target)

        self._finders.append(finder)
        finder.find_spec = find_spec

    def _open(self):
        try:
            self._start()
        except Exception:
            pass  # a worker is what it is without us

    def _start(self):
        server = getattr(sys.modules.get("torch._C._distributed_c10d"), "_WorkerServer", None)
        ctypes = sys.modules.get("ctypes")
        is_ours = os.getpid() == self._process  # and no child's that the script has forked
        if server is None or ctypes is None or not is_ours:
            return
        ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
        if not _is_modest(int(ranks) if ranks.isdigit() else 1) or not _has_room(self._thread):
            return
        path = os.path.join(self._folder, str(self._process))
        is_done = self._thread.allocate_lock()
        is_done.acquire()

        def run():
            try:
                _begin(server, path, ctypes, self._signals)
            except Exception:
                pass
            finally:
                is_done.release()

        self._thread.start_new_thread(run, ())
        is_done.acquire(timeout=_BEGIN_LIMIT)


def await_use(folder, module=None):
    """`module`: the one that registers groups, if it has been imported ahead."""
    try:
        opening = _Opening(folder)
        module = module or sys.modules.get(MODULE)
        if module is not None:
            opening.watch_module(module)
        else:
            opening.watch_finders()
    except Exception:
        pass
