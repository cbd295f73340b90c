"""How a Python that ddprun has started gets back to what it would be without us.

The agent puts a zip file that only memory holds first into PYTHONPATH; its sitecustomize.py is the
first of our code to run, while Python imports `site`. What comes after it is Python's own: it runs
the script, the module or the command of its command line as it always does.

Single thread: the main one, before the script. No name of ours stays in sys.modules.
"""

import os
import sys

# What a Python has imported by now that runs none of our code: this is the first of ours.
BEFORE = frozenset(name for name in sys.modules
                   if name != "sitecustomize" and not name.startswith("ddprun_"))

_helpers = set()
_aside = []  # modules that we still use
_entry = __file__.rpartition("/")[0]


def forget_path():
    """Takes our file out of sys.path, its caches and PYTHONPATH, for C's getenv() too."""
    sys.path[:] = [folder for folder in sys.path if folder != _entry]
    sys.path_importer_cache.pop(_entry, None)
    sys.modules["zipimport"]._zip_directory_cache.pop(_entry, None)
    value = os.environ.get("PYTHONPATH", "")
    if value == _entry:
        del os.environ["PYTHONPATH"]
    elif value == f"{_entry}:{_entry}":
        os.environ["PYTHONPATH"] = ""  # to Python that is none, and it is not the current folder
    elif value.startswith(_entry + ":"):
        os.environ["PYTHONPATH"] = value[len(_entry) + 1:]


def note_helpers():
    """What is imported by now is for us alone."""
    _helpers.update(name for name in sys.modules if name not in BEFORE)


def put_helpers_aside():
    """The script's imports are to bring their own, with what those bring."""
    for name in _helpers:
        if name != "sitecustomize" and not name.startswith("ddprun_"):
            module = sys.modules.pop(name)
            _aside.append(module)
            for folder in getattr(module, "__path__", ()):
                sys.path_importer_cache.pop(folder, None)


def forget_helpers():
    """Takes out of sys.modules what was imported for us alone."""
    for name in _helpers:
        module = sys.modules.pop(name, None)
        for folder in getattr(module, "__path__", ()):
            sys.path_importer_cache.pop(folder, None)


def run_own_sitecustomize():
    """The machine's own, in our place; raises what `site` expects where there is none."""
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401


def own_customizations():
    """Files of `site` that a person may have written: what they change at a start is unknown."""
    library = os.path.dirname(os.__file__)
    names = ["sitecustomize"]
    if sys.modules["site"].ENABLE_USER_SITE:
        names.append("usercustomize")
    return [path for name in names for folder in sys.path if folder not in (_entry, library)
            for path in (os.path.join(folder, name + ".py"), os.path.join(folder, name))
            if os.path.exists(path)]
