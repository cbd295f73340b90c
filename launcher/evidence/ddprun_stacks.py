"""Lets a worker say where its threads stand when the agent asks by a signal.

The signal's handler is faulthandler's: it is C, and needs neither the interpreter's lock nor a free
moment of the script, so it answers in a loop that never ends, and out of a library. It writes into
a file that only memory holds, which the agent finds by its name (see stack_request.hpp).

Beside the handler of a real-time signal, a script sees one descriptor more, below 1024 at the top,
which it inherits to nobody. Where any of it cannot be had, there is none of it.
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
_TRIES = 16


def _open_file():
    """A descriptor that appends to it, where a script's own are not likely to come."""
    made = os.memfd_create(NAME, os.MFD_CLOEXEC)
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


def answer(number):
    try:
        if faulthandler is not None and _signal.getsignal(number) == _signal.SIG_DFL:
            faulthandler.register(number, file=_open_file(), all_threads=True, chain=False)
    except (OSError, AttributeError, ValueError, RuntimeError):
        pass  # a worker is what it is without us


def begin(number):
    """In a worker that is started cold, and notes no imports."""
    ddprun_site.forget_path()
    answer(number)
    ddprun_site.note_helpers()
    ddprun_site.forget_helpers()
    ddprun_site.run_own_sitecustomize()
