"""A terminal with a user: a program of the cluster tests runs on it as from a shell."""

import fcntl
import os
import pty
import re
import struct
import termios
import threading

from tests.support.cluster import Program


class Terminal:
    """It is the controlling terminal of `program`, and its streams that are not given."""

    def __init__(self, cluster, name, command, environment=None, columns=80, **streams):
        self.ours, theirs = pty.openpty()
        self.resize(columns)

        def become_foreground():
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        standard = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **streams}
        environment = {"TERM": "xterm", "NO_COLOR": "", **(environment or {})}
        self.program = Program(cluster, name, command, environment=environment,
                               preexec_fn=become_foreground, pass_fds=[theirs], **standard)
        self.theirs = theirs
        self.bytes = b""
        self.may_read = threading.Event()
        self.may_read.set()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while self.may_read.wait():
            try:
                chunk = os.read(self.ours, 65536)
            except OSError:
                return
            if not chunk:
                return
            self.bytes += chunk

    def text(self):
        """What stays on the screen, with the program's newlines. It leaves out ddprun's own
        progress text that is erased again, which is only seen on slow machines."""
        lasting = re.sub(rb"ddprun [^\r\n]*\r\x1b\[K", b"", self.bytes)
        return lasting.decode(errors="replace").replace("\r\n", "\n")

    def type(self, text):
        os.write(self.ours, text.encode())

    def resize(self, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def modes(self):
        return termios.tcgetattr(self.ours)

    def wait(self):
        """The exit code, after all output is read."""
        self.may_read.set()
        code = self.program.wait()
        os.close(self.theirs)
        self.reader.join()
        return code
