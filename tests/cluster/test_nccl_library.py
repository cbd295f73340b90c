"""Which libnccl makes the ids of a round if the user names none: the one that the workers load."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, LIMIT, WORKER, Program
from tests.support.gpus import visible_gpus
from tests.support.installed_nccl import installed_nccl
from tests.support.machines import without_installed_libraries

NCCL = installed_nccl()
ALLREDUCE = BIN / "nccl_allreduce"
pytestmark = pytest.mark.skipif(NCCL is None, reason="this Python has no NCCL (nvidia-nccl-cu13)")
PYTHONS_OWN = {"PYTHON_EXEC": sys.executable}
NO_PYTHON = {"PYTHON_EXEC": "/nowhere/python"}


@pytest.fixture(autouse=True)
def nobody_names_one(monkeypatch):
    monkeypatch.delenv("DDPRUN_NCCL_LIBRARY", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def start(cluster, *command, prefix=(), environment=None):
    line = cluster.agent_line("node-a", "--nccl-ids", "on", command=["--no-python", *command])
    return Program(cluster, "node-a", line, prefix=prefix, environment=environment)


def library_of_ids(cluster):
    """The library that the ddprun-nccl-id of this round has loaded."""
    cluster.started(1, 1)
    found = set()
    for pid, line in cluster.marked().items():
        if "ddprun-nccl-id" in line.split()[0]:
            found |= set(re.findall(r"/\S*libnccl\.so\S*", Path(f"/proc/{pid}/maps").read_text()))
    assert len(found) == 1, found
    return found.pop()


def installed_system_nccl():
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False)
    found = re.search(r"libnccl\.so\.2 .*=> (\S+)", listed.stdout)
    return found and str(Path(found[1]).resolve())


@pytest.fixture
def bare():
    """The beginning of a command that runs where no NCCL is installed, except for Python's
    package."""
    default = [str(path) for folder in ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
               for pattern in ("libnccl.so.2", "*-linux-gnu/libnccl.so.2")
               for path in Path(folder).glob(pattern)]
    if default:
        pytest.skip(f"the loader finds {default[0]} whatever is mounted")
    return without_installed_libraries()


@pytest.fixture
def linked(tmp_path):
    """A program that is linked with the NCCL of PyTorch's package, as CMake links ours; it then
    executes the command that it is given."""
    if shutil.which("c++") is None:
        pytest.skip("no c++ here")
    source, program = tmp_path / "linked.cpp", tmp_path / "linked-program"
    source.write_text("#include <unistd.h>\n"
                      "int main(int, char** words) { return execv(words[1], words + 1); }\n")
    subprocess.run(["c++", "-o", program, source, "-Wl,--no-as-needed", NCCL,
                    f"-Wl,-rpath,{NCCL.parent}"], check=True)
    return program


@pytest.mark.parametrize("is_in_path", [False, True])
def test_that_of_a_program_which_is_linked_with_one(cluster, linked, is_in_path, monkeypatch):
    """This holds even if the system has another one, and there is no Python."""
    if is_in_path:
        monkeypatch.setenv("PATH", f"{linked.parent}:/usr/bin:/bin")
    agent = start(cluster, linked.name if is_in_path else linked, WORKER, environment=NO_PYTHON)
    assert library_of_ids(cluster) == str(NCCL.resolve())
    cluster.finish(1)
    assert agent.wait() == 0
    cluster.nothing_left()


def test_that_of_the_packages_of_a_python(cluster):
    """The Python is started as a program, and is not the active one."""
    goes_on = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
    agent = start(cluster, sys.executable, "-c", goes_on, WORKER, environment=NO_PYTHON)
    assert library_of_ids(cluster) == str(NCCL.resolve())
    cluster.finish(1)
    assert agent.wait() == 0


def test_that_of_the_system_for_a_script(cluster):
    expected = installed_system_nccl()
    if expected is None:
        pytest.skip("the system has no NCCL (ldconfig -p)")
    agent = start(cluster, WORKER, environment=PYTHONS_OWN)
    assert library_of_ids(cluster) == expected
    cluster.finish(1)
    assert agent.wait() == 0


def test_that_of_the_python_here_where_the_system_has_none(cluster, bare):
    agent = start(cluster, WORKER, prefix=bare, environment=PYTHONS_OWN)
    assert library_of_ids(cluster) == str(NCCL.resolve())
    cluster.finish(1)
    assert agent.wait() == 0


def test_where_there_is_none_at_all_that_is_said(cluster, bare):
    agent = start(cluster, WORKER, prefix=bare, environment=NO_PYTHON)
    agent.says("ddprun-nccl-id: NCCL cannot be loaded: libnccl.so.2: .*; install it beside the "
               "workers' PyTorch, or name it in DDPRUN_NCCL_LIBRARY")
    assert agent.wait() == 1


@pytest.mark.skipif(not ALLREDUCE.exists(), reason="needs NCCL and nvcc to be built")
def test_the_examples_own_line(cluster, bare):
    """The line is the one in its README; no NCCL is installed except the one that it was linked
    with."""
    agent = start(cluster, ALLREDUCE, "-e", "1M", prefix=bare, environment=NO_PYTHON)
    code = agent.wait()
    assert "NCCL cannot be loaded" not in agent.err()
    if visible_gpus() == 0:
        assert re.search("nccl_allreduce: rank 0 of 1, .*: join: no GPU is visible", agent.err())
    else:
        assert code == 0
        assert "# Out of bounds values : 0 OK" in agent.out()


def test_a_program_is_not_run_to_find_out(tmp_path):
    program = tmp_path / "python-of-mine"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    done = subprocess.run([BIN / "ddprun-nccl-id", "--program", program, "1"], check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                          env={"PATH": "/usr/bin:/bin", "PYTHON_EXEC": sys.executable})
    assert done.returncode == 0, done.stdout
    assert re.search(r"^id [0-9a-f]+$", done.stdout, re.MULTILINE)
    assert not (tmp_path / "ran").exists()
