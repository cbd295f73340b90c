"""What `ddprun` checks before its first round (--check), and the launcher's page on doctor."""

import re
import subprocess

import pytest

from tests.support import machines, pages
from tests.support.cluster import BIN, LIMIT
from tests.support.doctors import Doctors, of_all

PAGE = pages.LAUNCHER.read_text()
TRIES = 50
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}


def job(*options, prefix=(), environment=None):
    """What ddprun prints about a job of one worker that succeeds."""
    done = subprocess.run([*prefix, BIN / "ddprun", *options, "--no-python", "/bin/true"],
                          capture_output=True, text=True, check=False, timeout=LIMIT,
                          env={**ENVIRONMENT, **(environment or {})})
    assert done.returncode == 0, done.stderr
    return done.stderr


def warned(word, *options, **how):
    """The same for a job that has to warn of this. A check that takes more than a few dozen
    milliseconds does not delay the job and prints nothing, so on a slow machine it may take several
    jobs until one warns."""
    for _ in range(TRIES):
        said = job(*options, **how)
        if f"warning: {word}: " in said:
            return said
    raise AssertionError(f"no warning of {word} in {TRIES} jobs:\n{said}")


@pytest.mark.parametrize("variable", ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"])
def test_an_interface_that_is_not_here_is_said_and_stops_nothing(variable):
    said = warned(variable, environment={variable: "eth99"})
    line = [each for each in said.splitlines() if variable in each]
    assert len(line) == 1, said
    assert (f"warning: {variable}: eth99 is not an interface with an address on this host: "
            in line[0])
    assert said.index(variable) < said.index("round 1 starts")
    assert variable not in job("--check", "off", environment={variable: "eth99"})
    assert variable not in job(environment={variable: "eth99", "PET_CHECK": "off"})
    assert variable not in job(environment={variable: "lo"})


def test_little_shared_memory():
    said = warned("shared memory", prefix=machines.with_shared_memory("64m"))
    assert "warning: shared memory: 64 MiB free of 64 MiB: " in said
    assert "shared memory" not in job("--check=off", prefix=machines.with_shared_memory("64m"))


def test_few_open_files():
    said = warned("open files", prefix=["sh", "-c", 'ulimit -n 512; exec "$@"', "sh"])
    assert "warning: open files: at most 512 a process: raise it to " in said


def test_a_word_that_is_none():
    done = subprocess.run([BIN / "ddprun", "--check=on", "--no-python", "/bin/true"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--check=on: write auto or off" in done.stderr


def test_readme(cluster, make_hosts, tmp_path):
    [line] = re.findall(r"^\$ ddprun doctor (.*--nnodes.*)$", PAGE, re.M)
    words = line.split()
    nodes = int(words[words.index("--nnodes") + 1])
    hosts = make_hosts(nodes)
    values = {"node0": hosts[0].address, "/data": tmp_path}
    group = Doctors(cluster, hosts)
    for index in range(nodes):
        group.start(index, "--json", *(values.get(word, word) for word in words))
    for told in group.answers():
        assert told["errors"] == 0, told
        for check in ("connections", "MTU", "names of nodes", "round trip", "clocks", "versions",
                      "shared folder", "bandwidth"):
            assert of_all(told, check), check
