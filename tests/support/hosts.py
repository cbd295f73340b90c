"""Hosts as network namespaces behind one switch, with links that a test can cut and heal."""

import ipaddress
import os
import subprocess
import uuid


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def available():
    """True if this machine allows network namespaces."""
    name = f"ddprun-probe-{os.getpid()}"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


class Host:
    """One host. With `prefix` in front a command runs there."""

    def __init__(self, switch, index, ipv6=False):
        self.switch = switch
        self.name = f"{switch.name}-h{index}"
        self.port = f"p{index}"
        address = f"fd00:{switch.tag}::{index + 1}" if ipv6 else f"10.77.0.{index + 1}"
        self.address = str(ipaddress.ip_address(address))  # as ddprun writes it
        ip("netns", "add", self.name)
        switch.plug_in(self)
        length = "64" if ipv6 else "24"
        flags = ["nodad"] if ipv6 else []
        ip("-n", self.name, "address", "add", f"{self.address}/{length}", "dev", "eth0", *flags)
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "link", "set", "eth0", "up")
        self.prefix = ["ip", "netns", "exec", self.name]

    def add_interface(self, name, address):
        """Adds a link to the same switch; `address` includes the prefix length."""
        port = f"{self.port}{name}"
        ip("-n", self.switch.name, "link", "add", port, "type", "veth", "peer", "name", name,
           "netns", self.name)
        ip("-n", self.switch.name, "link", "set", port, "master", "switch", "up")
        ip("-n", self.name, "address", "add", address, "dev", name)
        ip("-n", self.name, "link", "set", name, "up")

    def cut(self):
        self.switch.cut(self)

    def heal(self):
        self.switch.heal(self)

    def sockets(self):
        """The listening and connected TCP sockets of this host, as lines."""
        done = subprocess.run([*self.prefix, "ss", "-tanH", "state", "listening", "state",
                               "established"], capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line.strip()]


class Switch:
    """A switch with `count` hosts, without a name service or a route to the outside."""

    def __init__(self, count, ipv6=False):
        self.tag = uuid.uuid4().hex[:4]
        self.name = f"ddprun-{self.tag}"
        ip("netns", "add", self.name)
        # Without spanning tree and delay a healed link forwards at once.
        ip("-n", self.name, "link", "add", "switch", "type", "bridge", "stp_state", "0",
           "forward_delay", "0")
        ip("-n", self.name, "link", "set", "switch", "up")
        self.hosts = [Host(self, index, ipv6) for index in range(count)]

    def plug_in(self, host):
        ip("-n", self.name, "link", "add", host.port, "type", "veth", "peer", "name", "eth0",
           "netns", host.name)
        ip("-n", self.name, "link", "set", host.port, "master", "switch", "up")

    def cut(self, host):
        ip("-n", self.name, "link", "set", host.port, "down")

    def heal(self, host):
        ip("-n", self.name, "link", "set", host.port, "up")

    def remove(self):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)
