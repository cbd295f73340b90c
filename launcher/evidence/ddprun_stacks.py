"""Lets a worker say where its threads stand when the agent asks by a signal.

The signal's handler is faulthandler's: it is C, and needs neither the interpreter's lock nor a free
moment of the script, so it answers in a loop that never ends, and out of a library. It writes into
a file that only memory holds, which the agent finds by its name (see stack_request.hpp).

Beside the handler of a real-time signal, a script sees one descriptor more, below 1024 at the top,
which it inherits to nobody. Where any of it cannot be had, there is none of it.

Where NCCL may be asked for its counts (NCCL_RAS_ADDR), there is the same once more: the signal
below has a handler of the interpreter's own, which runs when the main thread comes back from the
call of a library that it is in, and adds a byte to a file (see call_watch.hpp).
"""

import os

import ddprun_site  # before what is for us alone

# By now: in a warm worker an import would bring what the script has yet to import.
try:
    import _signal
    import faulthandler
except ImportError:
    faulthandler = None

NAME = "ddprun-stack"
NAME_OF_RETURNS = "ddprun-returns"
_TRIES = 16


def _open_file(name):
    """A descriptor that appends to it, where a script's own are not likely to come."""
    made = os.memfd_create(name, os.MFD_CLOEXEC)
    opened = os.open(f"/proc/self/fd/{made}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    os.close(made)
    top = min(os.sysconf("SC_OPEN_MAX"), 1024) - 1
    for place in range(top, max(top - _TRIES, opened), -1):
        try:
            os.fstat(place)
        except OSError:
            os.dup2(opened, place, inheritable=False)
            os.close(opened)
            return place
    return opened


class _NoteOfReturn:
    """A handler that looks the same in every worker."""

    __slots__ = ("_file",)

    def __init__(self, file):
        self._file = file

    def __call__(self, number, frame):
        try:
            os.write(self._file, b".")
        except OSError:
            pass  # the script has closed it

    def __repr__(self):
        return "<ddprun: notes that the main thread is back in the interpreter>"


def answer(number):
    try:
        if faulthandler is None or _signal.getsignal(number) != _signal.SIG_DFL:
            return
        faulthandler.register(number, file=_open_file(NAME), all_threads=True, chain=False)
        if "NCCL_RAS_ADDR" in os.environ and _signal.getsignal(number - 1) == _signal.SIG_DFL:
            _signal.signal(number - 1, _NoteOfReturn(_open_file(NAME_OF_RETURNS)))
            _signal.siginterrupt(number - 1, False)
    except (OSError, AttributeError, ValueError, RuntimeError):
        pass  # a worker is what it is without us


def begin(number):
    """In a worker that is started cold, and notes no imports."""
    ddprun_site.forget_path()
    answer(number)
    ddprun_site.note_helpers()
    ddprun_site.forget_helpers()
    ddprun_site.run_own_sitecustomize()
