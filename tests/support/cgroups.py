"""Cgroups, if this machine allows them: an agent's for its workers, and those of tests."""

import errno
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import wait_for


def own_folder():
    """The folder of the cgroup (version 2) that this process is in, or None."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    place = next((line[3:] for line in lines if line.startswith("0::/")), None)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if place is not None and " - cgroup2 " in line:
            root, point = line.split()[3:5]
            if root == "/":
                return Path(point + place)
    return None


def allowed():
    folder = own_folder()
    if folder is None:
        return False
    probe = folder / f"ddprun-test-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def needed():
    if not allowed():
        pytest.skip("no cgroup of version 2 may be made here")


def is_empty(folder):
    """True if it can be removed, or is removed already."""
    try:
        return "populated 0" in (folder / "cgroup.events").read_text()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.ENODEV:  # it was removed after its file had been opened
            raise
        return True


def of(agent):
    return own_folder() / f"ddprun-{agent.pid}"


@contextmanager
def of_memory(limit):
    """Makes a cgroup with this memory limit in bytes, of either version, and yields its folder."""
    folder = Path("/sys/fs/cgroup/memory") / f"ddprun-test-{os.getpid()}"
    name = "memory.limit_in_bytes"
    if not folder.parent.is_dir():  # version 2
        folder = Path("/sys/fs/cgroup") / folder.name
        name = "memory.max"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group may be made here: {error}")
    try:
        try:
            (folder / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"no control group of memory may be made here: {error}")
        yield folder
    finally:
        wait_for("the group to be empty", lambda: not (folder / "cgroup.procs").read_text())
        folder.rmdir()


def memory_left(folder, limit):
    """The bytes left; memory that only caches files counts as left."""
    is_first = (folder / "memory.usage_in_bytes").exists()
    used = int((folder / ("memory.usage_in_bytes" if is_first else "memory.current")).read_text())
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    prefix = "total_" if is_first else ""
    return limit - used + sum(int(stat[f"{prefix}{kind}_file"]) for kind in ("active", "inactive"))
