"""A switch that delays frames and loses some, as a long or bad network does.

Not every kernel has the network emulator (netem), so a process of ours is the switch: each host's
eth0 is a TAP device whose frames it reads and forwards.
"""

import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import time
import uuid

from tests.support.hosts import Host, ip

# linux/if_tun.h
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME_BYTES_MAX = 2048


def open_tap(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return device


def available():
    """True if this machine allows TAP devices."""
    try:
        os.close(open_tap(f"probe{os.getpid()}"))
        return True
    except OSError:
        return False


class Forwarder:
    """Reads frames from `taps`, drops each with probability `loss`, and forwards the others after
    `delay` seconds. A line on `orders`, "cut 1" or "heal 1", cuts or heals a host's link."""

    def __init__(self, taps, orders, delay, loss, seed):
        self.taps, self.orders, self.delay, self.loss = taps, orders, delay, loss
        self.random = random.Random(seed)
        self.port_of = {}  # by hardware address
        self.cut = set()
        self.waiting = []  # (when, number, port, frame)
        self.number = 0

    def run(self):
        while True:
            due = self.waiting[0][0] - time.monotonic() if self.waiting else None
            ready, _, _ = select.select([self.orders, *self.taps], [], [],
                                        None if due is None else max(0, due))
            if self.orders in ready and not self.obey():
                return
            for port, tap in enumerate(self.taps):
                if tap in ready:
                    self.read(port)
            self.write_due()

    def obey(self):
        text = os.read(self.orders, 4096).decode()
        for line in text.splitlines():
            word, port = line.split()
            (self.cut.add if word == "cut" else self.cut.discard)(int(port))
        return text != ""  # empty when the parent process is gone

    def read(self, port):
        while True:
            try:
                frame = os.read(self.taps[port], FRAME_BYTES_MAX)
            except OSError:
                return
            if port in self.cut or self.random.random() < self.loss:
                continue
            self.port_of[frame[6:12]] = port
            target = self.port_of.get(frame[:6])
            others = range(len(self.taps)) if target is None else [target]
            for other in others:
                if other != port:
                    self.number += 1
                    heapq.heappush(self.waiting, (time.monotonic() + self.delay, self.number,
                                                  other, frame))

    def write_due(self):
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            _, _, port, frame = heapq.heappop(self.waiting)
            if port in self.cut:
                continue
            try:
                os.write(self.taps[port], frame)
            except OSError:
                pass  # lost: its queue is full, or the host is gone


class SlowSwitch:
    """A switch with `count` hosts. Every frame takes `delay` seconds, and is lost with probability
    `loss`."""

    def __init__(self, count, delay=0.0, loss=0.0, seed=1):
        self.tag = uuid.uuid4().hex[:4]
        self.name = f"ddprun-{self.tag}"
        self.taps = []
        self.hosts = [Host(self, index) for index in range(count)]
        orders, self.orders = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.orders)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                Forwarder(self.taps, orders, delay, loss, seed).run()
            finally:
                os._exit(0)
        os.close(orders)
        for tap in self.taps:
            os.close(tap)

    def plug_in(self, host):
        name = f"t{self.tag}{len(self.taps)}"
        self.taps.append(open_tap(name))
        ip("link", "set", name, "netns", host.name, "name", "eth0")

    def cut(self, host):
        os.write(self.orders, f"cut {self.hosts.index(host)}\n".encode())

    def heal(self, host):
        os.write(self.orders, f"heal {self.hosts.index(host)}\n".encode())

    def remove(self):
        os.close(self.orders)
        os.waitpid(self.process, 0)
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", host.name], capture_output=True, check=False)
