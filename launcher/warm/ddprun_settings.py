"""What imports change in Python besides sys.modules, to be repeated when the script imports them.

A script that sets warning filters, and then imports packages that set some, too, gets theirs before
its own; a handler that a package adds to the root logger keeps basicConfig() of a script from
adding one; a variable to which a package gives a default has it before the script changes it. So a
worker begins as if nothing had been set, and each import repeats the changes that it made in the
zygote.
"""

import os
import sys

import _signal
import _warnings

import ddprun_random

# A module, and a list or a value of it.
_LISTS = (("_warnings", "filters"), ("sys", "meta_path"), ("sys", "path_hooks"),
          ("logging", "root.handlers"))
_VALUES = (("sys", "excepthook"), ("sys", "displayhook"), ("sys", "breakpointhook"),
           ("sys", "unraisablehook"), ("threading", "excepthook"), ("warnings", "showwarning"),
           ("warnings", "formatwarning"), ("logging", "root.level"), ("logging", "lastResort"),
           ("logging", "_loggerClass"), ("builtins", "__import__"), ("builtins", "open"))


def _owner(place):
    """The object that has it, and its attribute; None: its module is not imported."""
    owner = sys.modules.get(place[0])
    *parts, name = place[1].split(".")
    for part in parts:
        owner = getattr(owner, part, None)
    return None if owner is None or not hasattr(owner, name) else (owner, name)


def look():
    """{place: value} of all that exist."""
    found = {}
    for place in _LISTS + _VALUES:
        owner = _owner(place)
        if owner:
            value = getattr(*owner)
            found[place, owner[0]] = tuple(value) if place in _LISTS else value
    for number in _signal.valid_signals():
        found["signal", int(number)] = _signal.getsignal(number)
    for name, value in os.environ._data.items():
        found["variable", name] = value
    return found


def changes(before):
    """[(place, owner, before, after)] since `before`."""
    now = look()
    found = [(place, owner, was, now[place, owner]) for (place, owner), was in before.items()
             if (place, owner) in now and not _same(was, now[place, owner])]
    names = {name for place, name in before.keys() ^ now.keys() if place == "variable"}
    return found + [("variable", name, before.get(("variable", name)), now.get(("variable", name)))
                    for name in sorted(names)]


def _same(one, other):
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same_item, one, other))
    return one is other or (isinstance(one, (int, bytes)) and one == other)


def _same_item(one, other):
    return one is other or (isinstance(one, tuple) and one == other)


def undo(change):
    """Does not undo variables and random numbers, because a worker has its own."""
    if change[0] not in ("variable", "generator"):
        _put(*change[:2], change[2])


def repeat(change):
    place, owner, before, after = change
    if place in _LISTS:
        # Handlers are appended; all else is prepended if both would explain the change.
        is_behind = place[0] == "logging"
        now = list(getattr(owner, place[1].rpartition(".")[2]))
        after = _added(now, before, after, is_behind)
    _put(place, owner, after)


def _put(place, owner, value):
    if place == "generator":
        ddprun_random.set_state(owner, value)
        return
    if place == "variable" and value is None:
        os.environb.pop(owner, None)
        return
    if place == "variable":
        os.environb[owner] = value
        return
    if place == "signal":
        if value is not None:  # it was not installed by Python
            try:
                _signal.signal(owner, value)
            except ValueError:
                pass  # only the main thread may, so the import would have failed, too
        return
    name = place[1].rpartition(".")[2]
    if place not in _LISTS:
        setattr(owner, name, value)
        return
    getattr(owner, name)[:] = value
    if place[0] == "_warnings":
        _tell_of_filters()


def _tell_of_filters():
    """Resets the cache of warnings that were printed already."""
    if hasattr(_warnings, "_filters_mutated"):
        _warnings._filters_mutated()
    elif hasattr(_warnings, "_filters_mutated_lock_held"):  # Python 3.14
        _warnings._acquire_lock()
        try:
            _warnings._filters_mutated_lock_held()
        finally:
            _warnings._release_lock()


def _without(items, taken):
    return [one for one in items if not any(_same_item(one, other) for other in taken)]


def _added(now, before, after, is_behind):
    """`now` with what was added before or after `before` to make `after`."""
    for count in range(len(after) + 1):  # the smallest change that explains it
        for begin in sorted(range(count + 1), reverse=not is_behind):
            end = len(after) - (count - begin)
            front, back = after[:begin], after[end:]
            if _same(after[begin:end], tuple(_without(before, front + back))):
                return [*front, *_without(now, front + back), *back]
    return list(after)
