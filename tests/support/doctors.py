"""`ddprun doctor` on several hosts at once, and what each of them says."""

import json

from tests.support.cluster import BIN, Program

# The hosts have no name service, nobody set what this machine's owner has, and no Python is asked.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTHON_EXEC": "/nonexistent/python",
               "NCCL_SOCKET_IFNAME": "", "GLOO_SOCKET_IFNAME": ""}


def named(name):
    """A prefix: the program runs on a host of that name."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh"]


class Doctors:
    """One doctor on each host, all typed alike."""

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
        """What each of them says, as JSON."""
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
    """What was said of all nodes under that name."""
    return [each for each in told["findings"]
            if each.get("scope") == "nodes" and each["check"] == check
            and state in (None, each["state"])]
