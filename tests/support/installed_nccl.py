"""The NCCL of this Python's packages, and that of a program."""

import importlib.util
import re
import subprocess
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


def linked_nccl(program):
    """The path of the libnccl.so.2 that a program is linked with."""
    loaded = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.search(r"libnccl\.so\.2 => (\S+)", loaded)[1]
