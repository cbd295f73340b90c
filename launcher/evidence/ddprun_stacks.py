"""Lets a worker report where its threads are when the agent asks by a signal.

The handler is faulthandler's. It is written in C and needs neither the GIL nor a point at which
the script is interruptible, so it answers from an endless loop and from inside a library. It writes
into an anonymous memory file, which the agent finds by its name (see stack_request.hpp).

A script can notice the handler of a real-time signal and one more descriptor, just below 1024,
which its children do not inherit. If any part cannot be set up, the worker starts without it.

If NCCL can be asked for its counts (NCCL_RAS_ADDR is set), the next lower signal gets a Python
handler and a file of its own. That handler runs when the main thread returns from the library call
that it is in, and appends a byte to the file (see call_watch.hpp).
"""

import os

import ddprun_site  # must come first: it finds our own modules

# Import now: in a warm worker, a later import would load modules that the script expects to import
# itself.
try:
    import _signal
    import faulthandler
except ImportError:
    faulthandler = None

import ddprun_server

NAME = "ddprun-stack"
NAME_OF_RETURNS = "ddprun-returns"
_TRIES = 16


def _open_file(name):
    """Returns an appending descriptor with a high number, which a script is unlikely to use."""
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
    """A handler whose repr has no address, so that it is the same in every worker."""

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
        pass  # the worker runs without it


def start_script(folder):
    """The last that we do in a worker which is started cold; `folder`: of its worker server."""
    ddprun_site.note_helpers()
    ddprun_site.forget_helpers()
    try:
        ddprun_site.run_own_sitecustomize()
    finally:
        # Python has looked into the folders of sys.path by now.
        if folder:
            ddprun_server.await_use(folder)


def begin(number, folder):
    """In a worker that is started cold, and notes no imports."""
    ddprun_site.forget_path()
    answer(number)
    start_script(folder)
