"""The cgroup that an agent makes for its workers, where this machine allows that."""

import os
from pathlib import Path

import pytest


def own_folder():
    """Of the cgroup (version 2) that we are in; None where there is none."""
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
    """Whether it can be taken away; or it has been."""
    try:
        return "populated 0" in (folder / "cgroup.events").read_text()
    except FileNotFoundError:
        return True


def of(agent):
    return own_folder() / f"ddprun-{agent.pid}"
