"""Returns a Python that ddprun has started to the state that it would have without us.

The agent puts a zip file in memory first into PYTHONPATH. Its sitecustomize.py is the first of our
code to run, while Python imports `site`. After that Python continues normally: it runs the script,
the module or the command of its command line.

Single thread: the main one, before the script. None of our names stays in sys.modules.
"""

import os
import sys

# What any Python has imported by now: this line is the first of our code.
BEFORE = frozenset(name for name in sys.modules
                   if name != "sitecustomize" and not name.startswith("ddprun_"))

_helpers = set()
_aside = []  # modules that our code still uses
_entry = __file__.rpartition("/")[0]


def forget_path():
    """Removes our file from sys.path, its caches, and PYTHONPATH (for C's getenv(), too)."""
    sys.path[:] = [folder for folder in sys.path if folder != _entry]
    sys.path_importer_cache.pop(_entry, None)
    sys.modules["zipimport"]._zip_directory_cache.pop(_entry, None)
    value = os.environ.get("PYTHONPATH", "")
    if value == _entry:
        del os.environ["PYTHONPATH"]
    elif value == f"{_entry}:{_entry}":
        os.environ["PYTHONPATH"] = ""  # empty: Python ignores it, and does not take it for "."
    elif value.startswith(_entry + ":"):
        os.environ["PYTHONPATH"] = value[len(_entry) + 1:]


def is_ours(name):
    """Whether a module of this name is one of those with which Python begins here."""
    return name == "sitecustomize" or name.startswith("ddprun_")


def note_helpers():
    """Notes that all modules imported by now are only for our code."""
    _helpers.update(name for name in sys.modules if name not in BEFORE)


def put_helpers_aside():
    """Hides our helpers, so that the script's imports load their own, with all they bring in."""
    for name in _helpers:
        if not is_ours(name):
            module = sys.modules.pop(name)
            _aside.append(module)
            for folder in getattr(module, "__path__", ()):
                sys.path_importer_cache.pop(folder, None)


def forget_helpers():
    """Removes from sys.modules what was imported only for our code."""
    for name in _helpers:
        module = sys.modules.pop(name, None)
        for folder in getattr(module, "__path__", ()):
            sys.path_importer_cache.pop(folder, None)


def run_own_sitecustomize():
    """Imports the machine's own in place of ours; raises what `site` expects if there is none."""
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401


def own_customizations():
    """Files of `site` that a user may have written: what they change at startup is unknown."""
    library = os.path.dirname(os.__file__)
    names = ["sitecustomize"]
    if sys.modules["site"].ENABLE_USER_SITE:
        names.append("usercustomize")
    return [path for name in names for folder in sys.path if folder not in (_entry, library)
            for path in (os.path.join(folder, name + ".py"), os.path.join(folder, name))
            if os.path.exists(path)]
