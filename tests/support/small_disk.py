"""A file system of 2 MB, and a function that fills it."""

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def mounted(folder):
    """Skips the test if this machine does not allow the mount."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this machine does not let us mount a tmpfs (needs root): {done.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
