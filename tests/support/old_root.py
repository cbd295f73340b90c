"""The root of another Debian, in which to run what is here.

Debian 11 (glibc 2.31) is the oldest that Debian's mirrors still carry; Debian 13 has Python 3.13.
debootstrap fetches each once, from the mirror that apt uses here, into .cache. Without root,
debootstrap or a network the tests are skipped.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from tests.support.cluster import ROOT

FETCHES_S = 1200


@dataclass(frozen=True)
class Debian:
    number: int
    codename: str
    packages: str

    @property
    def kept(self):
        return ROOT / ".cache" / f"debian-{self.codename}"


OLDEST = Debian(11, "bullseye", "python3,python3-pip,python3-venv")
WITH_PYTHON_3_13 = Debian(13, "trixie", "python3,python3-venv,python3-pytest")


def mirror():
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian",
                           "Created-By: Packages"], check=False, capture_output=True, text=True)
    return next((line for line in done.stdout.splitlines() if "security" not in line), "")


def fetch(debian):
    """Skips the test if it cannot be fetched."""
    if os.getuid() != 0:
        pytest.skip("only root can make the root of another system")
    for program in ("debootstrap", "apt-get"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here (tests/setup installs Debian's packages)")
    part = debian.kept.with_name(f"{debian.kept.name}.{os.getpid()}")
    done = subprocess.run(["debootstrap", "--variant=minbase",
                           f"--include={debian.packages}", debian.codename, part, mirror()],
                          check=False, capture_output=True, text=True, timeout=FETCHES_S)
    if done.returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        pytest.skip(f"debootstrap did not bring Debian {debian.number}: "
                    f"{(done.stdout + done.stderr)[-300:]}")
    part.replace(debian.kept)


def make(folder, debian=OLDEST):
    """Makes a fresh root of that system at `folder`."""
    if not debian.kept.exists():
        debian.kept.parent.mkdir(exist_ok=True)
        fetch(debian)
    subprocess.run(["cp", "-a", "--reflink=auto", debian.kept, folder], check=True)
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n")  # a minimal root has no such file
    return folder


def inside(folder, *command):
    """The command line that runs `command` there, with /proc and /dev."""
    enter = ('mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
             'exec chroot "$0" /usr/bin/env -u LD_LIBRARY_PATH '
             'PATH=/usr/local/bin:/usr/bin:/bin LC_ALL=C.UTF-8 HOME=/root "$@"')
    return ["unshare", "--mount", "sh", "-c", enter, folder, *command]
