"""The NCCL of this Python's packages."""

import importlib.util
from pathlib import Path


def installed_nccl():
    """The path of libnccl.so.2, or None."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return None
    if found is None:
        return None
    path = Path(list(found.submodule_search_locations)[0]) / "lib" / "libnccl.so.2"
    return path if path.exists() else None
