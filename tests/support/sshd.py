"""Real sshd and ssh for tests: each server has a host key and a port of its own.

Nothing of this machine's setup (its sshd, ~/.ssh, known_hosts, ~/.bashrc) is read or written: what
a login shell reads at its start may take a second, and wait for other logins.
"""

import getpass
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster import Program, wait_for
from tests.support.ports import free_port

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


def skip_without_ssh():
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("no sshd and ssh here (Debian: openssh-server, openssh-client)")


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


class Server:
    """An sshd that this user can log in to; `alias` is its name in the client's configuration."""

    def __init__(self, net, alias, host, settings, behind, address, port):
        self.alias = alias
        self.host = host
        self.address = address or (host.address if host else "127.0.0.1")
        self.port = port or free_port()
        self.folder = net.folder / alias
        self.folder.mkdir()
        self.home = net.home(alias)
        self.home.mkdir()
        make_key(self.folder / "host_key")
        at = f"[{self.address}]" if ":" in self.address else self.address
        lines = [f"ListenAddress {at}:{self.port}", f"HostKey {self.folder}/host_key",
                 f"AuthorizedKeysFile {net.folder}/user_key.pub", "PidFile none", "UsePAM no",
                 "StrictModes no", "PasswordAuthentication no", "LogLevel VERBOSE",
                 f"SetEnv HOME={self.home}", *settings]
        if os.getuid() == 0:
            lines.append("PermitRootLogin prohibit-password")
            os.makedirs("/run/sshd", exist_ok=True)  # for its privilege separation
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")
        self.net = net
        self.behind = behind
        self.program = None
        self.start()

    def start(self):
        prefix = [*(self.host.prefix if self.host else []), *self.behind]
        self.program = Program(self.net.cluster, f"sshd-{self.alias}",
                               [SSHD, "-D", "-e", "-f", self.folder / "sshd_config"], prefix=prefix)
        self.program.says("Server listening")

    def known_key(self):
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    def processes(self):
        """All descendants of the sshd: {pid: command line}."""
        children = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if words[0] != "Z":
                    children.setdefault(int(words[1]), {})[int(entry.name)] = line
        found, left = {}, [self.program.pid]
        while left:
            below = children.get(left.pop(), {})
            found.update(below)
            left += below
        return found

    def agent(self):
        """Returns the process id of the agent."""
        [pid] = [pid for pid, line in self.processes().items()
                 if "--ddprun-ordered" in line and line.split()[0].endswith("/ddprun")]
        return pid

    def nobody_is_in(self):
        wait_for(f"nothing to be left on {self.alias}", lambda: not self.processes())

    def logins(self):
        return len(re.findall("Accepted publickey", self.program.err()))

    def stop(self):
        """Kills sshd and all below it, like a host that goes down for good."""
        for pid in [self.program.pid, *self.processes()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.program.wait()


class SshNet:
    """Servers, and the client's configuration, which names them by alias."""

    def __init__(self, cluster):
        skip_without_ssh()
        self.cluster = cluster
        self.folder = cluster.folder / "ssh"
        self.folder.mkdir()
        make_key(self.folder / "user_key")
        self.servers = []
        self.extra = []  # lines of the configuration for hosts that are not ours
        self.write()

    def server(self, alias, host=None, settings=(), behind=(), address=None, port=None):
        """`behind` is a command prefix that changes the machine for sshd and all logins."""
        self.servers.append(Server(self, alias, host, settings, behind, address, port))
        self.write()
        return self.servers[-1]

    def write(self):
        lines = [*self.extra]
        known = []
        for one in self.servers:
            lines += [f"Host {one.alias} {one.alias}-*", f"  HostName {one.address}",
                      f"  Port {one.port}"]
            known.append(f"[{one.address}]:{one.port} {one.known_key()}")
        lines += ["Host *", f"  User {getpass.getuser()}",
                  f"  IdentityFile {self.folder}/user_key",
                  "  IdentitiesOnly yes",
                  f"  UserKnownHostsFile {self.folder}/known_hosts",
                  "  GlobalKnownHostsFile none", "  StrictHostKeyChecking yes",
                  "  ControlPath none"]
        (self.folder / "config").write_text("\n".join(lines) + "\n")
        (self.folder / "known_hosts").write_text("\n".join(known) + "\n")

    def home(self, alias):
        """The home folder of logins there, which is empty."""
        return self.folder / alias / "home"

    @property
    def arguments(self):
        return ["--ssh-args", f"-F {self.folder}/config"]
