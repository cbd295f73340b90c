"""Processes that SIGKILL does not end until they are thawed, the closest there is to a process
stuck in the kernel (cgroup v1 freezer, root only)."""

import os
import uuid
from pathlib import Path

ROOT = Path("/sys/fs/cgroup/freezer")


class Freezer:
    """A cgroup whose processes are frozen. `unavailable` says why there is none."""

    unavailable = None

    def __init__(self):
        self.folder = ROOT / f"ddprun-test-{uuid.uuid4().hex[:8]}"
        try:
            self.folder.mkdir()
            (self.folder / "freezer.state").read_text()
        except OSError as failure:
            self.unavailable = f"no cgroup v1 freezer here: {failure}"

    def freeze(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))
        (self.folder / "freezer.state").write_text("FROZEN")

    def is_frozen(self):
        """Wait for it: before that, SIGKILL still ends the process."""
        return (self.folder / "freezer.state").read_text().strip() == "FROZEN"

    def thaw(self):
        (self.folder / "freezer.state").write_text("THAWED")

    def close(self):
        if self.folder.exists():
            self.thaw()
            for pid in (self.folder / "cgroup.procs").read_text().split():
                Path("/sys/fs/cgroup/freezer/cgroup.procs").write_text(pid)
            os.rmdir(self.folder)
