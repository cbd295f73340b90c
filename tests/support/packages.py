"""The packages that users install, as the build makes them."""

import fcntl
import subprocess

import pytest

from tests.support.cluster import BIN

BUILD = BIN.parent
BUILDS_S = 1800  # for a test that is run by hand, before the build is up to date


def cached(name):
    """A variable of the build's CMake cache; empty if it does not exist."""
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.partition("=")[2]
    return ""


def built(target, pattern):
    """Builds `target`, and returns the one file of build/dist that matches `pattern`."""
    if cached("DDPRUN_SANITIZE"):
        pytest.skip("a sanitizer's build is not installed")
    with open(BUILD / "packages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two builds at once would write the same objects
        done = subprocess.run(["cmake", "--build", BUILD, "--target", target], check=False,
                              capture_output=True, text=True, timeout=BUILDS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (BUILD / "dist").glob(pattern)
    return found
