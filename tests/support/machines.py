"""Pretends properties of other machines. Each is a `prefix` for a command, which alone sees what is
mounted over the files that programs read."""

import shlex
import shutil
import subprocess
import sys

import pytest

# Mounts a FUSE file system whose server, this process and then the command, never answers.
SILENT_MOUNT = """
import ctypes, os, sys
folder, *command = sys.argv[1:]
server = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(server, True)
words = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
system = ctypes.CDLL(None, use_errno=True)
if system.mount(b"silent", os.fsencode(folder), b"fuse", 0, words) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(command[0], command)
"""


def _behind(mounts, what):
    """Skips the test if this machine does not allow mounts."""
    prefix = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh"]
    if shutil.which("unshare") is None:
        pytest.skip(f"no unshare here, which {what} needs")
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine does not let us make {what} (needs root): {tried.stderr}")
    return prefix


def with_gpus(count):
    """A host whose driver lists `count` GPUs, where it does so before one is used."""
    folders = " ".join(f"/proc/driver/nvidia/gpus/0000:0{number}:00.0" for number in range(count))
    return _behind(f"mount -t tmpfs tmpfs /proc/driver && mkdir -p {folders}", "a GPU to be seen")


def without_installed_libraries():
    """A system where ldconfig has found nothing: only the loader's own folders (/lib, /usr/lib) are
    left."""
    return _behind("mount --bind /dev/null /etc/ld.so.cache", "a system without libraries")


def with_shared_memory(size):
    """A container's /dev/shm, of `size` in the notation of mount(8)."""
    return _behind(f"mount -t tmpfs -o size={size} tmpfs /dev/shm", "a small /dev/shm")


def with_kernel_log(file):
    """The kernel's log is this file, to which a test may write."""
    return _behind(f"mount --bind {shlex.quote(str(file))} /dev/kmsg", "a log of the kernel")


def with_folder(folder):
    """An empty folder, as on another host, is mounted there."""
    return _behind(f"mount -t tmpfs tmpfs {folder}", "a folder of one host's own")


def with_silent_folder(folder):
    """This folder is on a file server that hangs. The command must be an absolute path."""
    prefix = ["unshare", "--mount", sys.executable, "-c", SILENT_MOUNT, folder]
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here, which a file server that hangs needs")
    tried = subprocess.run([*prefix, "/bin/true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this machine has no FUSE for us: {tried.stderr}")
    return prefix


def without_a_name():
    """A host that no name service knows."""
    return _behind("mount --bind /dev/null /etc/hosts && mount --bind /dev/null /etc/resolv.conf",
                   "a host without a name")
