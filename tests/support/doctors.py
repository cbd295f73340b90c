"""Runs `ddprun doctor` on several hosts at once, and collects what each of them reports."""

import json

from tests.support.cluster import BIN, Program

# The hosts have no name service and none of this machine's settings, and use no Python.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTHON_EXEC": "/nonexistent/python",
               "NCCL_SOCKET_IFNAME": "", "GLOO_SOCKET_IFNAME": ""}

# A doctor whose message this version does not understand, at the daemon of its own host.
OTHER_VERSION = r"""
import time
from torch.distributed import PrefixStore, TCPStore
store = TCPStore("127.0.0.1", 29400, is_master=False, wait_for_workers=False)
store = PrefixStore("ddprun-doctor/none", store)
store.compare_set("generation", "", "1")
store = PrefixStore("1", store)
store.set("beat/abc", "0")
store.set("card/abc", '{"name": "old-7", "size": 3}')
store.append("members", "abc\n")
print("there", flush=True)
for beat in range(1, 1000):
    store.set("beat/abc", str(beat))
    time.sleep(0.1)
"""

# A node of this version, at the daemon of host 0. It joins, takes part while its standard input is
# open, and completes nothing.
PLAYED_NODE = r"""
import json
import sys
import threading
from torch.distributed import PrefixStore, TCPStore
store = TCPStore("10.77.0.1", 29400, is_master=False, wait_for_workers=False)
store = PrefixStore("1", PrefixStore("ddprun-doctor/none", store))
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set())).start()
store.set("beat/played", "0")
store.set("card/played", json.dumps({
    "token": "played", "name": "node-played", "nodes": [2, 2], "host": "played",
    "address": "10.77.0.3", "addresses": [], "ports": [], "nccl_interface": "", "versions": {},
    "own": [], "folder": "", "bandwidth": False}))
store.append("members", "played\n")
beat = 0
while not over.wait(0.1):
    beat += 1
    store.set("beat/played", str(beat))
    if beat > 1 and store.check(["roster"]):
        print("settled", flush=True)
"""


def named(name):
    """A command prefix: the program runs on a host of that name."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh"]


class Doctors:
    """One doctor on each host, all with the same command line."""

    def __init__(self, cluster, hosts, endpoint=None):
        self.cluster = cluster
        self.hosts = hosts
        self.endpoint = endpoint or hosts[0].address
        self.programs = []

    def start(self, index, *words, nodes=None, prefix=(), environment=None):
        host = self.hosts[index]
        program = Program(
            self.cluster, f"doctor-{index}",
            [BIN / "ddprun", "doctor", "--nnodes", nodes or len(self.hosts),
             "--rdzv-endpoint", self.endpoint, *words],
            prefix=[*host.prefix, *named(f"node-{index}"), *prefix],
            environment={**ENVIRONMENT, **(environment or {})})
        self.programs.append(program)
        return program

    def run(self, *words, **options):
        """Returns what each of them reports, as JSON."""
        for index in range(len(self.hosts)):
            self.start(index, "--json", *words, **options)
        return self.answers()

    def answers(self):
        told = []
        for program in self.programs:
            status = program.wait()
            assert not program.err(), program.err()
            told.append(json.loads(program.out()))
            assert status == (1 if told[-1]["errors"] else 0), program.out()
        return told


def of_all(told, check, state=None):
    """The findings of this check about all nodes."""
    return [each for each in told["findings"]
            if each.get("scope") == "nodes" and each["check"] == check
            and state in (None, each["state"])]
