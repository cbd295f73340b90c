"""The root of an older Debian, in which to run what was built here.

Debian 11 (glibc 2.31) is the oldest that Debian's mirrors still carry. debootstrap fetches it once,
from the mirror that apt uses here, into .cache. Without root, debootstrap or a network the tests
are skipped.
"""

import os
import shutil
import subprocess

import pytest

from tests.support.cluster import ROOT

CODENAME, NAME = "bullseye", "Debian 11"
KEPT = ROOT / ".cache" / f"debian-{CODENAME}"
FETCHES_S = 1200


def mirror():
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian",
                           "Created-By: Packages"], check=False, capture_output=True, text=True)
    return next((line for line in done.stdout.splitlines() if "security" not in line), "")


def fetch(folder):
    """Skips the test if it cannot be fetched."""
    if os.getuid() != 0:
        pytest.skip("only root can make the root of another system")
    for program in ("debootstrap", "apt-get"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here (tests/setup installs Debian's packages)")
    part = folder.with_name(f"{folder.name}.{os.getpid()}")
    done = subprocess.run(["debootstrap", "--variant=minbase",
                           "--include=python3,python3-pip,python3-venv", CODENAME, part, mirror()],
                          check=False, capture_output=True, text=True, timeout=FETCHES_S)
    if done.returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        pytest.skip(f"debootstrap did not bring {NAME}: {(done.stdout + done.stderr)[-300:]}")
    part.replace(folder)


def make(folder):
    """Makes a fresh root of an older system at `folder`."""
    if not KEPT.exists():
        KEPT.parent.mkdir(exist_ok=True)
        fetch(KEPT)
    subprocess.run(["cp", "-a", "--reflink=auto", KEPT, folder], check=True)
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")  # a minimal root has no such file
    return folder


def inside(folder, *command):
    """The command line that runs `command` there, with /proc and /dev."""
    enter = ('mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
             'exec chroot "$0" /usr/bin/env -u LD_LIBRARY_PATH '
             'PATH=/usr/local/bin:/usr/bin:/bin LC_ALL=C.UTF-8 HOME=/root "$@"')
    return ["unshare", "--mount", "sh", "-c", enter, folder, *command]
