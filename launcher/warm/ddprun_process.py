"""Turns a forked spare into the process that a cold start would have created."""

import atexit
import ctypes
import gc
import os
import struct
import sys

import _signal

_PR_SET_MM = 35
_PR_SET_MM_MAP = 14
_PROT_READ_WRITE = 3
_MAP_PRIVATE_ANONYMOUS = 0x22
_OOM_SCORE_FILE = "/proc/self/oom_score_adj"
_OOM_SCORE_MAX = b"1000"


class Work:
    """The worker's program, command, environment and CPUs, read from a file of the agent.

    Each part ends with a zero byte: the program; the CPUs, separated by commas; the file for the
    list of imports (or nothing); the site zip of a cold start (or nothing); the number of words of
    the command; the words; the entries of the environment.
    """

    def __init__(self, descriptor):
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(0)
            parts = file.read().split(b"\0")[:-1]
        self.program = parts[0]
        self.processors = [int(number) for number in parts[1].split(b",") if number]
        self.record = os.fsdecode(parts[2])
        self.site = parts[3]
        words = int(parts[4])
        self.command = parts[5:5 + words]
        self.environment = dict(entry.split(b"=", 1) for entry in parts[5 + words:])

    def cold_environment(self):
        others = self.environment.get(b"PYTHONPATH")
        if not self.site:
            return self.environment
        path = self.site if others is None else self.site + b":" + (others or self.site)
        return {**self.environment, b"PYTHONPATH": path}


def first_environment():
    """The environment that this process was started with, without our entry of PYTHONPATH.

    os.environ may have more: in the C locale Python sets LC_CTYPE for itself and its children.
    """
    with open("/proc/self/environ", "rb") as file:
        entries = [entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry]
    variables = dict(reversed(entries))  # of duplicates, the first one counts
    variables.pop(b"PYTHONPATH", None)
    if b"PYTHONPATH" in os.environ._data:
        variables[b"PYTHONPATH"] = os.environ._data[b"PYTHONPATH"]
    return variables


def give_way():
    """Lets workers run first, if the system allows it: a spare has an autogroup of its own."""
    try:
        with open("/proc/self/autogroup", "w") as file:
            file.write("10")
    except OSError:
        pass


def go_first():
    """Makes the OOM killer prefer this process. Returns the score that a spare has to restore when
    it becomes a worker; None: the score was not changed, because it could not be restored.

    With or without CAP_SYS_RESOURCE, a process that has raised it may lower it to what it was. A
    sandbox may forbid it, and a worker must not keep the high score. So a child tries it first.
    """
    try:
        before = _oom_score()
        child = os.fork()
        if child == 0:
            try:
                set_oom_score(_OOM_SCORE_MAX)
                set_oom_score(before)
                os._exit(0 if _oom_score() == before else 1)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1] != 0:
            return None
        set_oom_score(_OOM_SCORE_MAX)
        return before
    except OSError:
        return None


def _oom_score():
    with open(_OOM_SCORE_FILE, "rb") as file:
        return file.read().strip()


def set_oom_score(value):
    if value is not None:
        with open(_OOM_SCORE_FILE, "wb", buffering=0) as file:
            file.write(value)


def execute_cold(work):
    """Executes the command, as if this Python had never run."""
    # Python ignores these signals from its start, and an ignored signal stays ignored across exec.
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    os.execve(work.program, work.command, work.cold_environment())


def fixed_words():
    """The command up to the script's arguments, which Python has parsed at its start."""
    return [os.fsencode(word) for word in sys.orig_argv[:len(sys.orig_argv) - len(sys.argv) + 1]]


def set_arguments(command):
    fixed = len(fixed_words())
    words = [os.fsdecode(word) for word in command]
    sys.orig_argv[:] = words
    sys.argv[1:] = words[fixed:]


class Process:
    """System calls that Python has no function for."""

    def __init__(self):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.sbrk.restype = ctypes.c_void_p
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                    ctypes.c_int, ctypes.c_long]

    def prctl(self, option, *arguments):
        """Raises OSError."""
        values = [one if isinstance(one, bytes) else ctypes.c_ulong(one) for one in arguments]
        values += [ctypes.c_ulong(0)] * (4 - len(values))
        if self._libc.prctl(ctypes.c_int(option), *values) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {option}")

    def show(self, command, environment):
        """Replaces /proc/PID/cmdline and environ. The old texts stay, as pointers lead there."""
        words = b"".join(word + b"\0" for word in command)
        entries = b"".join(name + b"=" + value + b"\0" for name, value in environment.items())
        size = len(words) + len(entries) + 1
        place = self._libc.mmap(None, size, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
        if place in (None, 2 ** (8 * ctypes.sizeof(ctypes.c_void_p)) - 1):
            raise OSError(ctypes.get_errno(), "mmap")
        ctypes.memmove(place, words + entries, size - 1)
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
        code, code_end, stack = (int(fields[at - 3]) for at in (26, 27, 28))
        data, data_end, heap = (int(fields[at - 3]) for at in (45, 46, 47))
        middle = place + len(words)
        layout = struct.pack("=11QQIi", code, code_end, data, data_end, heap, self._libc.sbrk(0),
                             stack, place, middle, middle, place + size - 1, 0, 0, -1)
        self.prctl(_PR_SET_MM, _PR_SET_MM_MAP, layout, len(layout))


def begin_anew(ahead):
    """Renews what forked processes share and processes that are started cold do not."""
    modules = sys.modules
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "torch" in modules:
        modules["torch"].default_generator.seed()
    if "multiprocessing.process" in modules:
        process = modules["multiprocessing.process"]
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))
    if "threading" in modules:
        modules["threading"].main_thread()._set_native_id()
    if "logging" in modules:
        logging = modules["logging"]
        clock = modules["time"].time if isinstance(logging._startTime, float) else \
            modules["time"].time_ns
        logging._startTime = clock()
    # Objects that were frozen are never freed, and extension modules report that as a leak. And at
    # its end Python finds what it has to clean up in sys.modules.
    atexit.register(gc.unfreeze)
    atexit.register(ahead.show_all)
