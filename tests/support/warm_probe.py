"""What a script can see of its process, as JSON, for the tests of warm workers.

Each attempt writes NAME.RANK.ATTEMPT.json into the folder of DDPRUN_TEST_CONTROL. The first waits
for a file `go` and fails; the next one ends as the first argument says.
"""

import sys

AT_START = sorted(sys.modules)
IS_WARM = any(hasattr(one, "holds") and one.holds("decimal") for one in sys.meta_path)
START = {
    "filters": list(map(repr, sys.modules["_warnings"].filters)), "path": list(sys.path),
    # A standard module that was imported ahead is not searched for in the current folder.
    "folders": sorted(set(sys.path_importer_cache) - {sys.modules["os"].getcwd()}),
    "path_hooks": len(sys.path_hooks),
    "hooks": [repr(one).partition(" at 0x")[0] for one in (sys.excepthook, sys.displayhook)],
    "variables": sorted(map("=".join, sys.modules["os"].environ.items())),
}

import os  # noqa: E402

EARLY = sorted(os.listdir("/proc/self/fd"))  # including that of the listing

import atexit  # noqa: E402
import ctypes  # noqa: E402
import decimal  # noqa: E402, F401
import faulthandler  # noqa: E402
import fcntl  # noqa: E402
import gc  # noqa: E402
import inspect  # noqa: E402
import json  # noqa: E402
import locale  # noqa: E402
import logging  # noqa: E402
import multiprocessing  # noqa: E402
import pickle  # noqa: E402
import random  # noqa: E402
import resource  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402


class Value:
    def __init__(self, number):
        self.number = number


def doubled(value):
    return value.number * 2, os.environ["RANK"], __name__


def in_children():
    """Calls a function with a class of this file in a child, for each way to start processes."""
    found = {}
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found[method] = pool.map(doubled, [Value(21)])
    return found


# Requests of prctl() that return a number, and those that write to an address.
PRCTL_ANSWERS = {"dumpable": 3, "keep capabilities": 7, "securebits": 27, "timer slack": 30,
                 "no new privileges": 39, "huge pages off": 42}
PRCTL_ADDRESSES = {"signal at the parent's death": 2, "subreaper": 37}
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}  # the number of the system call


def of_kernel():
    """What the kernel holds for a process and shows only on request."""
    libc = ctypes.CDLL(None)
    found = {name: libc.prctl(number, 0, 0, 0, 0) for name, number in PRCTL_ANSWERS.items()}
    for name, number in PRCTL_ADDRESSES.items():
        value = ctypes.c_int(-1)
        libc.prctl(number, ctypes.byref(value), 0, 0, 0)
        found[name] = value.value
    for name in ("autogroup", "personality", "coredump_filter", "loginuid"):
        try:
            found[name] = Path("/proc/self", name).read_text().rpartition(" ")[2]
        except OSError as error:
            found[name] = str(error)
    found["input and output"] = libc.syscall(IOPRIO_GET.get(os.uname().machine, -1), 1, 0)
    found["alternate"] = [signal.getitimer(one) for one in (0, 1, 2)]
    found["pending"] = sorted(signal.sigpending())
    return found


def of_streams():
    return [[fcntl.fcntl(number, fcntl.F_GETFL), fcntl.fcntl(number, fcntl.F_GETFD),
             os.readlink(f"/proc/self/fd/{number}").partition(":")[0]] for number in range(3)]


def without_our_path(entries):
    """Removes our entry from a cold worker's PYTHONPATH, where it comes first."""
    name = "PYTHONPATH="
    own = {entry: name + entry[len(name):].partition(":")[2]
           for entry in entries if entry.startswith(name + "/proc/")}
    return sorted(entry for entry in (own.get(one, one) for one in entries) if entry != name)


def of_system():
    status = dict(line.split(":\t", 1) for line in
                  Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    masks = {name: status[name] for name in
             ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd", "Umask", "Threads", "Name",
              "Cpus_allowed", "Mems_allowed", "NoNewPrivs", "Seccomp", "CapEff", "Groups", "Uid")}
    own = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    return {
        "status": masks, "kernel": of_kernel(), "streams": of_streams(),
        "command": Path("/proc/self/cmdline").read_text().split("\0"),
        "comm": Path("/proc/self/comm").read_text(),
        "variables": without_our_path(Path("/proc/self/environ").read_text().split("\0")),
        "descriptors": EARLY,
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "parent is the agent": Path(f"/proc/{os.getppid()}/comm").read_text(),
        "nice": [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), own[16]],
        "oom": Path("/proc/self/oom_score_adj").read_text(),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource)
                   if name.startswith("RLIMIT_")},
        "processors": sorted(os.sched_getaffinity(0)),
        "cwd": os.getcwd(),
        "signals": {str(number): repr(signal.getsignal(number))
                    for number in signal.valid_signals()},
        # The agent makes one for its workers, where it may.
        "cgroup": Path("/proc/self/cgroup").read_text().replace(f"ddprun-{os.getppid()}",
                                                                "ddprun-AGENT"),
    }


def of_python():
    main = sys.modules["__main__"]
    streams = [[one.encoding, one.errors, one.line_buffering, one.write_through, one.isatty(),
                one.seekable(), one.fileno(), one.name, one.mode, type(one.buffer).__name__]
               for one in (sys.stdin, sys.stdout, sys.stderr)]
    hidden = {"__builtins__"}
    return {
        "at start": START, "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path,
        "flags": repr(sys.flags), "executable": sys.executable, "prefix": sys.prefix,
        "warnoptions": sys.warnoptions, "meta_path": [
            getattr(one, "__name__", type(one).__name__) for one in sys.meta_path],
        "path_hooks": [repr(one).partition(" at 0x")[0] for one in sys.path_hooks],
        "main": [[name, repr(value).partition(" at 0x")[0]] for name, value in vars(main).items()
                 if name.startswith("__") and name not in hidden],
        "main file": getattr(main, "__file__", None),
        "frames": [[one.function, one.filename] for one in inspect.stack()],
        "environment": dict(sorted(os.environ.items())),
        "environment in C": sorted(
            subprocess.run(["env", "-0"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split("\0")),
        "streams": streams, "filters": [repr(one) for one in warnings.filters],
        "excepthook": repr(sys.excepthook).partition(" at ")[0],
        "displayhook": repr(sys.displayhook), "breakpoint": repr(sys.breakpointhook),
        "faulthandler": faulthandler.is_enabled(), "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(), "trace": repr(sys.gettrace()),
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks, gc.garbage],
        "hooks": [repr(one).partition(" at 0x")[0] for one in (
            sys.unraisablehook, threading.excepthook, sys.getprofile(), threading._trace_hook,
            sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth())],
        "settings": [sys.getdlopenflags(), sys.get_int_max_str_digits(), sys.dont_write_bytecode,
                     sys.pycache_prefix, locale.setlocale(locale.LC_ALL),
                     sys.getfilesystemencoding(), repr(decimal.getcontext()),
                     signal.set_wakeup_fd(-1), time.tzname, threading.stack_size()],
        "process": [multiprocessing.current_process().name, multiprocessing.parent_process(),
                    multiprocessing.get_start_method(allow_none=True), threading.current_thread() is
                    threading.main_thread(), threading.get_ident() == threading.main_thread().ident,
                    logging.getLogger().level, len(logging.getLogger().handlers)],
        "threads": [one.name for one in threading.enumerate()],
        "native id": threading.main_thread().native_id == os.getpid(),
        "started": 0 <= time.time() - float(str(logging._startTime)[:10]) < 600,
        "pickle": pickle.loads(pickle.dumps(Value(3))).number,
        "where pickled": Value.__module__, "children": in_children(),
        "local": "warm_local" in AT_START,
    }


def main():
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    folder = Path(os.environ["DDPRUN_TEST_CONTROL"])
    seen = {"system": of_system(), "python": of_python(), "modules at start": AT_START,
            "is warm": IS_WARM,
            "modules": sorted(sys.modules),
            "random": [random.random(), os.getpid(),
                       bytes(multiprocessing.current_process().authkey).hex()]}
    path = folder / f"{sys.argv[2]}.{os.environ['RANK']}.{attempt}.json"
    path.with_suffix(".new").write_text(json.dumps(seen))
    path.with_suffix(".new").rename(path)
    if attempt == 0:
        while not (folder / "go").exists():
            time.sleep(0.01)
        os._exit(3)
    atexit.register(print, "atexit: the first is the last")
    atexit.register(print, "atexit: the last is the first")
    warnings.warn("a warning of the script", stacklevel=1)
    print("no newline", end="")
    how = sys.argv[1]
    if how == "exit":
        sys.exit(7)
    if how == "text":
        sys.exit("a text on standard error")
    if how == "raise":
        raise FloatingPointError("the loss is NaN")
    if how == "breakpoint":
        breakpoint()  # there is nothing on standard input
    if how == "hook":
        sys.excepthook = lambda kind, value, trace: print("hook:", kind.__name__, value)
        raise FloatingPointError("the loss is NaN")
    if how == "signal":
        faulthandler.enable()
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "thread":
        threading.Thread(target=lambda: print("a thread's last word")).start()


if __name__ == "__main__":
    main()
