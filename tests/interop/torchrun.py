"""torchrun, and scripts, without the seconds that their import of PyTorch takes: a process that has
imported it forks for each run (torchrun_server.py), which executes torch.distributed.run.main
itself.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.cluster import BIN, LIMIT, Program, environment_of, wait_for

SERVER = Path(__file__).with_name("torchrun_server.py")


def start_ddprun(cluster, name, arguments, environment=None):
    """As `ForkServer.start` starts torchrun."""
    return Program(cluster, name, [BIN / "ddprun", *arguments], environment=environment)


class ForkServer:
    """The process that has imported torchrun. `start` forks a launcher; the process ends with the
    last of them."""

    def __init__(self, environment=None):
        self.control, theirs = socket.socketpair()
        # It has a session of its own, so that `close` reaches all launchers that are left.
        self.process = subprocess.Popen([sys.executable, SERVER, str(theirs.fileno())],
                                        pass_fds=[theirs.fileno()], start_new_session=True,
                                        env={**os.environ, **(environment or {})})
        theirs.close()
        self.lines = self.control.makefile("rw")

    def ask(self, **question):
        print(json.dumps(question), file=self.lines, flush=True)
        return json.loads(self.lines.readline())

    def start(self, cluster, name, arguments, environment=None, cwd=None,
              module="torch.distributed.run", script=None):
        """`script`: the text of a program that runs instead of torchrun."""
        number = len(list(cluster.folder.glob("*.torchrun.out")))
        places = {stream: str(cluster.folder / f"{name}.{number}.torchrun.{stream}")
                  for stream in ("out", "err")}
        Path(places["out"]).touch()  # the next one has another name, however soon it comes
        pid = self.ask(arguments=[str(argument) for argument in arguments], module=module,
                       script=script,
                       environment=environment_of(cluster, environment),
                       cwd=str(cwd or cluster.folder), **places)
        return Launcher(self, name, pid, places)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.control.close()


class Launcher:
    """A torchrun that was started; used like a Program of tests/support/cluster."""

    def __init__(self, server, name, pid, places):
        self.server, self.name, self.pid, self.places = server, name, pid, places

    def out(self):
        return Path(self.places["out"]).read_text(errors="replace")

    def err(self):
        return Path(self.places["err"]).read_text(errors="replace")

    def wait(self, limit=LIMIT):
        """Its exit code."""

        def ended():
            code = self.server.ask(pid=self.pid)
            return None if code is None else [code]

        return wait_for(f"{self.name} to end", ended, limit)[0]
