"""Checks that what a zygote has imported may be forked, and is what the script would import."""

import ctypes
import os
import sys

import ddprun_known
import ddprun_site

_CANARY_SECONDS = 30
_NOT_INITIALIZED = 3  # CUDA_ERROR_NOT_INITIALIZED
_SCRIPT_SUFFIXES = (".py", ".pyc", ".so")
_MEMORY_FILE = "/proc/meminfo"
_CGROUP_FILE = "/proc/self/cgroup"
_CGROUPS = "/sys/fs/cgroup"


class WatchedVariables(dict):
    """The variables behind os.environ: records reads of the variables of a rank."""

    def __init__(self, variables, names):
        super().__init__(variables)
        self._names = names
        self._reads = set()  # (variable, known module that reads it or None)

    def watch(self, name):
        self._names = self._names | {name}

    def quietly(self, name):
        return dict.get(self, name)

    def __getitem__(self, name):
        self._note(name)
        return super().__getitem__(name)

    def __contains__(self, name):
        self._note(name)
        return super().__contains__(name)

    def _note(self, name):
        if name in self._names:
            self._reads.add((name, ddprun_known.reader_of_rank()))

    def read(self, known):
        """Those that were read, except by these modules."""
        return {name for name, reader in self._reads if reader not in known}

    def get(self, name, default=None):
        return self[name] if name in self else default


def script_path():
    """The file that Python is to run; empty for a module."""
    words = sys.orig_argv
    if words[2] == "-c":
        return words[4] if len(words) > 4 else ""
    return "" if words[2] == "-m" else words[2]


def _user_folders():
    """The folders in which the script finds its own modules before installed ones."""
    folders = [one for one in os.environ.get("PYTHONPATH", "").split(":") if one]
    path = script_path()
    is_run = path and sys.orig_argv[2] != "-c"
    folders.append(os.path.dirname(os.path.realpath(path)) if is_run else os.getcwd())
    return folders


class Places:
    """Tells which modules are the script's own, and which are installed."""

    def __init__(self):
        self._own = set()
        for folder in _user_folders():
            self._add(folder)
        installed = [os.path.dirname(os.__file__), *site_folders()]
        self._installed = tuple(os.path.realpath(one) + os.sep for one in installed)

    def _add(self, folder):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = entry.name.partition(".")[0]
                    if entry.name.endswith(_SCRIPT_SUFFIXES):
                        self._own.add(name)
                    elif os.path.exists(os.path.join(folder, entry.name, "__init__.py")):
                        self._own.add(name)
        except OSError:
            pass  # Python cannot read it either

    def holds(self, path):
        """True if the file belongs to an installed distribution or to Python."""
        return os.path.realpath(path).startswith(self._installed)

    def add_own(self, name):
        self._own.add(name)

    def is_installed(self, name):
        """True for a top-level module that no file of the script's shadows."""
        return name not in self._own

    def would_hold(self, name):
        """True if Python would load it from an installed distribution, or not find it.

        A wrong list may name an installed module that is linked to a user's own folder.
        """
        parent = sys.modules.get(name.rpartition(".")[0])
        if parent is None and "." in name:
            return False
        path = getattr(parent, "__path__", None)
        if parent is not None and path is None:
            return True
        for finder in sys.meta_path:
            try:
                spec = finder.find_spec(name, path)
            except Exception:
                continue  # an import would not find it either
            if spec is not None:
                places = [spec.origin] if spec.has_location else spec.submodule_search_locations
                return all(map(self.holds, places or ()))
        return True

    def stranger(self):
        """Why something was imported that was not installed; None if all was."""
        for name, module in list(sys.modules.items()):
            if name in ddprun_site.BEFORE or ddprun_site.is_ours(name):
                continue
            spec = getattr(module, "__dict__", {}).get("__spec__")
            if not getattr(spec, "has_location", False):
                continue  # made by another module
            path = spec.origin
            if name.partition(".")[0] in self._own:
                return f"{name} is also the name of a module of the script's own"
            if not self.holds(path):
                return f"{name} is not an installed module ({path})"
        return None


def _in_child(socket, work):
    """Runs work() in a forked child. Returns its result, or why there was none."""
    ours, theirs = socket.socketpair()
    # A fork runs the at-fork handlers of libraries, and Python only prints what these raise.
    raised = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda what: raised.append(repr(what.exc_value))
    try:
        child = os.fork()
    finally:
        sys.unraisablehook = hook
    if child == 0:
        try:
            why = f"a forked child fails: {raised[0]}" if raised else work()
        except BaseException as error:
            why = f"a forked child fails: {error!r}"
        theirs.send((why or "well").encode("utf-8", "replace")[:1000])
        os._exit(0)
    theirs.close()
    ours.settimeout(_CANARY_SECONDS)
    try:
        answer = ours.recv(1000).decode() or "a forked child crashes"
    except TimeoutError:
        answer = f"a forked child hangs for {_CANARY_SECONDS} s"
    os.kill(child, 9)
    os.waitpid(child, 0)
    ours.close()
    if raised and answer == "well":
        answer = f"an at-fork handler fails: {raised[0]}"
    return None if answer == "well" else answer


def let_pools_end(socket):
    """Lets thread pools end. OpenBLAS starts threads at its import, ends them before a fork, and
    starts new ones when needed; so do other libraries with at-fork handlers. Threads that remain
    are real ones. Returns why a child cannot be forked at all; None if it can."""
    return _in_child(socket, lambda: None)


def leftovers(control):
    """What an import has left that must not be forked; None if there is nothing."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"the imports have left threads running: {threads - 1} (OMP_NUM_THREADS=1 may help)"
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        if file.read().strip():
            return "the imports have left a child process"
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number <= 2 or number == control:
            continue
        try:
            file = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor of the listing itself
        return f"the imports have left a descriptor open: {file}"
    shared = _shares_memory()
    return f"the imports have left memory that forks would share: {shared}" if shared else None


def _shares_memory():
    """Tells whether a fork and this process would write to the same pages."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(None, 5)
            if fields[1].startswith("rw") and fields[1].endswith("s"):
                return fields[5].strip() if len(fields) > 5 else "without a name"
    return None


def _kilobytes(path, name):
    with open(path, "rb") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1])
    return 0


def _number(path):
    """None for "max", and if there is no such file."""
    try:
        with open(path, "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _cached_in(folder):
    """Bytes of the page cache, which the kernel reclaims before anything fails."""
    try:
        with open(f"{folder}/memory.stat", "rb") as file:
            values = dict(line.split() for line in file)
    except (OSError, ValueError):
        return 0
    return int(values.get(b"inactive_file", 0)) + int(values.get(b"active_file", 0))


def _left_in_cgroup():
    """Kilobytes until the nearest limit of a cgroup (version 2); None: there is none.

    The agent checks version 1, and cgroups that are not visible here (memory_gauge.hpp).
    """
    left = []
    try:
        with open(_CGROUP_FILE, encoding="utf-8") as file:
            (own,) = [line.strip()[3:] for line in file if line.startswith("0::")]
        while own.startswith("/") and own != "/":
            folder = _CGROUPS + own
            own = own.rpartition("/")[0]
            limits = [_number(f"{folder}/{name}") for name in ("memory.max", "memory.high")]
            limits = [limit for limit in limits if limit is not None]
            if limits:
                used = _number(f"{folder}/memory.current") - _cached_in(folder)
                left.append((min(limits) - used) >> 10)
    except (OSError, ValueError, TypeError):
        pass
    return max(0, min(left)) if left else None


def shortage():
    """Tells whether too little memory is left for the pages that a worker will change."""
    own = _kilobytes("/proc/self/status", b"RssAnon:")
    left = _kilobytes(_MEMORY_FILE, b"MemAvailable:")
    limit = _left_in_cgroup()
    if limit is not None:
        left = min(left, limit)
    if left < 2 * own:
        return f"{left >> 10} MiB are left, and the imports hold {own >> 10} MiB"
    return None


def _compute():
    torch = sys.modules.get("torch")
    if torch is not None:
        square = torch.ones(512, 512)
        (square @ square).sum()
        torch.ones(2_000_000).exp()
        leaf = torch.ones(64, requires_grad=True)
        (leaf * 2).sum().backward()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.ones((256, 256)) @ numpy.ones((256, 256))


def _touched_gpu():
    with open("/proc/self/maps", "rb") as file:
        if b"libcuda.so" not in file.read():
            return None
    count = ctypes.c_int()
    answer = ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(count))
    return None if answer == _NOT_INITIALIZED else "the imports have initialized CUDA"


def canary(socket, process):
    """Why a forked child does not compute as it should; None if it does."""
    def work():
        process.show([b"canary"], {b"A": b"B"})
        why = _touched_gpu()
        if not why:
            _compute()
        return why

    return _in_child(socket, work)


def _stamp_of(path):
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def site_folders():
    """In which packages are installed."""
    site = sys.modules["site"]
    folders = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return folders


def stamp():
    """Of the script, and of the folders in which an upgrade of a package shows."""
    return {path: _stamp_of(path) for path in [*site_folders(), script_path()] if path}


def changed_since(before):
    for path, was in before.items():
        if _stamp_of(path) != was:
            return f"{path} has changed since the imports were made"
    return None
