"""The vault of `ddprun --vault DIR`: says what was saved there as complete, and finds the newest.

    from ddprun import vault
    newest = vault.newest()                      # a path; None: there is nothing to go on from
    vault.mark(f"step-{step}")                   # in the vault's folder; or a whole path
    trainer.add_callback(vault.MarkCheckpoints())  # a Trainer of transformers marks its checkpoints

Under another launcher, or without --vault, nothing is marked and nothing is found.
"""

import os
import re
import warnings

_MARKER = ".complete"
_MARKER_OF_DCP = ".metadata"
_FILE_OF_DCP = re.compile(r"__[0-9]+_[0-9]+\.distcp")


def folder():
    """The vault's folder, in memory; None: this worker has no vault."""
    return os.environ.get("DDPRUN_VAULT") or None


def mark(path):
    """Says that all of this entry is written: a file in the vault, or a folder. The path may be
    whole, or begin in the vault. Writing to it again later takes that back, until it is marked
    again. Returns whether it is marked: what is not in the vault stays as it is, and so does a
    folder with a part of a DCP checkpoint, of which another node has the rest."""
    place = folder()
    if place is None:
        return False
    path = os.path.join(place, os.path.expanduser(os.fspath(path)))
    if not _is_in_vault(path):
        warnings.warn(f"{path} is not marked: it is not in the vault ({place})", stacklevel=2)
        return False
    is_folder = os.path.isdir(path)
    if not is_folder and not os.path.isfile(path):
        raise FileNotFoundError(f"{path} cannot be marked: there is no such file or folder")
    parts = _parts_of_dcp(_files_below(path)) if is_folder else []
    if parts:
        warnings.warn(
            f"{path} is not marked: {parts[0]} has files of a DCP checkpoint and no .metadata: it "
            "is not yet written, or ranks of several nodes save it together (use a folder that "
            "all of them share)", stacklevel=2)
        return False
    marker = os.path.join(path, _MARKER) if is_folder else path + _MARKER
    with open(marker, "w"):
        pass
    os.utime(marker)
    return True


def _is_in_vault(path):
    place = folder()
    return place is not None and \
        os.path.realpath(path).startswith(os.path.realpath(place) + os.sep)


def _files_below(folder):
    return [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]


def _parts_of_dcp(paths):
    """The folders of these files in which a DCP checkpoint lacks its .metadata."""
    with_files, with_metadata = set(), set()
    for path in paths:
        parent, name = os.path.split(path)
        if name == _MARKER_OF_DCP:
            with_metadata.add(parent)
        elif _FILE_OF_DCP.fullmatch(name):
            with_files.add(parent)
    return sorted(with_files - with_metadata)


def newest():
    """The path of the newest complete entry; None: there is none.

    To be called before anything is saved, by each rank of a node: they find the same. ddprun has
    seen to it that other nodes find theirs of the same name.
    """
    place = folder()
    complete = _complete(os.path.normpath(place)) if place else []
    return max(complete)[1] if complete else None


def _complete(place):
    """(time of the marker, path) of each entry that is."""
    files = {}
    for path in _files_below(place):
        try:
            files[path] = os.lstat(path).st_mtime_ns
        except FileNotFoundError:
            pass  # removed meanwhile: it is an old one
    marked = {}
    for path, time in files.items():
        entry = _entry_of(path, place)
        # Our own marker goes before a library's.
        if entry and (entry not in marked or os.path.basename(path) != _MARKER_OF_DCP):
            marked[entry] = time
    parts = _parts_of_dcp(files)
    found = []
    for entry, time in marked.items():
        if any(entry.startswith(outer + os.sep) for outer in marked):
            continue  # a part of that one
        inside = [path for path in files
                  if path == entry or path.startswith(entry + os.sep)]
        is_part = any(path == entry or path.startswith(entry + os.sep) for path in parts)
        if inside and not is_part and all(files[path] <= time for path in inside):
            found.append((time, entry))
    return found


def _entry_of(path, place):
    """What this file marks; None: it marks nothing."""
    parent, name = os.path.split(path)
    if name == _MARKER:
        return parent if parent != place else None
    if name == _MARKER_OF_DCP:
        return parent if os.path.dirname(parent) == place else None
    return path[:-len(_MARKER)] if name.endswith(_MARKER) else None


def _make_callback():
    from transformers import TrainerCallback

    class MarkCheckpoints(TrainerCallback):
        """Marks each checkpoint of a Trainer whose output_dir is in the vault, when all ranks have
        written their part of it."""

        def on_save(self, args, state, control, **others):
            # On every rank, also of a node without a vault: the others wait for it.
            import torch.distributed as dist
            if dist.is_available() and dist.is_initialized():
                dist.barrier()
            path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
            if _is_in_vault(path) and state.is_local_process_zero and os.path.isdir(path):
                mark(path)

    return MarkCheckpoints


def __getattr__(name):
    # Only who uses it has to have transformers.
    if name != "MarkCheckpoints":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _make_callback()
    return made
