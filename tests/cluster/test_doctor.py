"""`ddprun doctor` on machines with something wrong, and on this one."""

import json
import os
import re
import socket
import subprocess

import pytest

from tests.support import machines
from tests.support.cluster import BIN, LIMIT
from tests.support.ports import free_port


def doctor(*words, prefix=(), environment=None):
    return subprocess.run([*prefix, BIN / "ddprun", "doctor", *words], capture_output=True,
                          text=True, env=environment, timeout=LIMIT, check=False)


def findings(*words, prefix=(), environment=None):
    """Returns the findings by check, and the exit status."""
    done = doctor("--json", *words, prefix=prefix, environment=environment)
    assert not done.stderr
    told = json.loads(done.stdout)
    assert told["errors"] == sum(each["state"] == "error" for each in told["findings"])
    assert done.returncode == (1 if told["errors"] else 0)
    return {each["check"]: each for each in told["findings"]}


@pytest.fixture
def environment():
    """An environment without anything that this machine's owner has set."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}


def test_this_machine_line_by_line(environment):
    done = doctor(environment=environment)
    *lines, last = done.stdout.splitlines()
    told = findings(environment=environment)
    for check in ("host name", "interfaces", "processors", "memory", "shared memory", "disk",
                  "open files", "clock", "GPUs", "Python"):
        assert check in told
        assert sum(line[9:].startswith(f"{check} ") for line in lines) >= 1, done.stdout
    assert last.split()[1] == "ok,"


def test_a_container_with_little_shared_memory(environment):
    found = findings(prefix=machines.with_shared_memory("64m"), environment=environment)
    assert found["shared memory"]["state"] == "warning"
    assert found["shared memory"]["seen"] == "64 MiB free of 64 MiB"
    assert "--shm-size" in found["shared memory"]["advice"]
    found = findings(prefix=machines.with_shared_memory("8m"), environment=environment)
    assert found["shared memory"]["state"] == "error"


def test_a_host_that_no_name_service_knows(environment):
    found = findings("--rdzv-endpoint", "no-such-node", prefix=machines.without_a_name(),
                     environment=environment)
    assert found["host name"]["state"] == "warning"
    assert found["host name"]["seen"].endswith(" is not known")
    assert found["endpoint"]["state"] == "error"
    assert found["endpoint"]["seen"].startswith("no-such-node: Host not found")


def test_an_interface_that_is_not_here(environment):
    found = findings(environment={**environment, "GLOO_SOCKET_IFNAME": "eth9"})
    assert found["GLOO_SOCKET_IFNAME"]["state"] == "error"
    assert "eth9 is not an interface" in found["GLOO_SOCKET_IFNAME"]["seen"]
    assert "lo" in found["GLOO_SOCKET_IFNAME"]["advice"]


def test_folders_whose_file_server_hangs(environment, tmp_path):
    """They are named, and the rest is still checked."""
    silent = tmp_path / "silent"
    silent.mkdir()
    environment |= {"PATH": f"{silent}:/usr/bin:/bin", "TMPDIR": f"{silent}",
                    "XDG_STATE_HOME": f"{silent}/state"}
    done = doctor("--json", prefix=machines.with_silent_folder(silent), environment=environment)
    assert done.returncode == 1
    told = json.loads(done.stdout)["findings"]
    said = [each["seen"] for each in told if each["state"] == "error"]
    assert f"{silent}, a folder of PATH, gives no answer" in said
    for folder in (silent, silent / "state"):
        assert f"{folder}: no answer from its file system in 5 s" in said
    assert any(each["check"] == "Python" for each in told)


def test_few_open_files(environment):
    found = findings(prefix=["sh", "-c", 'ulimit -n 512; exec "$@"', "sh"],
                     environment=environment)
    assert found["open files"]["state"] == "warning"
    assert found["open files"]["seen"] == "at most 512 a process"


def test_an_endpoint_on_this_host(cluster, environment):
    daemon = cluster.daemon(None)
    endpoint = ["--rdzv-endpoint", f"127.0.0.1:{daemon.port}"]
    found = findings(*endpoint, environment=environment)["endpoint"]
    assert (found["state"], found["seen"]) == (
        "ok", f"127.0.0.1:{daemon.port} is this node, and ddprun-rendezvous (process {daemon.pid}) "
              "listens there")
    port = free_port()
    found = findings("--rdzv-endpoint", f"127.0.0.1:{port}", environment=environment)["endpoint"]
    assert (found["state"], found["seen"]) == (
        "ok", f"127.0.0.1:{port} is this node; ddprun starts the daemon here")


def test_an_endpoint_whose_port_a_left_over_process_holds(environment):
    """The process may be a worker of an old job, or a program that was there first."""
    with socket.create_server(("127.0.0.1", 0)) as left:
        port = left.getsockname()[1]
        place = f"127.0.0.1:{port}"
        found = findings("--rdzv-endpoint", place, environment=environment)
    assert found["endpoint"]["state"] == "warning"
    holder = re.fullmatch(rf"{place} is this node, and (\S+) \(process {os.getpid()}\) "
                          "listens there", found["endpoint"]["seen"])
    assert holder and holder[1].startswith("python"), found["endpoint"]
    assert "choose another port" in found["endpoint"]["advice"]


def test_an_endpoint_on_another_host(cluster, make_hosts, environment):
    here, there = make_hosts(2)
    daemon = cluster.daemon(29400, host=there, bind="0.0.0.0")
    words = ["--rdzv-endpoint", f"{there.address}:{daemon.port}"]
    found = findings(*words, prefix=here.prefix, environment=environment)["endpoint"]
    assert (found["state"], found["seen"]) == (
        "ok", f"{there.address}:29400 answers; this node reaches it from {here.address} (eth0)")
    found = findings("--rdzv-endpoint", f"{there.address}:29401", prefix=here.prefix,
                     environment=environment)["endpoint"]
    assert found["state"] == "warning" and "Connection refused" in found["seen"]
    here.cut()
    found = findings(*words, prefix=here.prefix, environment=environment)["endpoint"]
    assert found["state"] == "warning" and "firewall" in found["advice"]
    found = findings("--rdzv-endpoint", "10.99.0.1", prefix=here.prefix,
                     environment=environment)["endpoint"]
    assert found["state"] == "error" and "no route" in found["advice"]


@pytest.mark.parametrize("words, problem", [
    (["--rdzv-endpoint", "node-0:70000"], "70000"),
    (["--jsno"], "--json"),
    (["now"], "doctor takes options only"),
])
def test_a_mistake_on_the_command_line(words, problem):
    done = doctor(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("ddprun doctor: ") and done.stderr.count("\n") == 1
    assert problem in done.stderr


def test_help():
    done = doctor("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ddprun doctor [OPTIONS]\n")
