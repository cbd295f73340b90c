"""Our programs run where PyTorch's wheels do: on glibc 2.28 and newer, with nothing else."""

import subprocess
import sys

import pytest

from tests.support import old_root
from tests.support.cluster import BIN, LIMIT, ROOT, Program
from tests.support.packages import cached

CHECK = ROOT / ".cmake/package/check_glibc.py"
PROGRAMS = [BIN / name for name in ("ddprun", "ddprun-rendezvous", "ddprun-nccl-id")]


@pytest.fixture(autouse=True)
def built_for_old_systems():
    if cached("DDPRUN_OLD_GLIBC") != "ON":
        pytest.skip("built for this system alone (DDPRUN_OLD_GLIBC)")


def check(*programs):
    return subprocess.run([sys.executable, CHECK, *programs], capture_output=True, text=True,
                          timeout=LIMIT, check=False)


def test_programs_need_no_symbol_that_is_newer_than_glibc_2_28():
    done = check(*PROGRAMS)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


SOURCE = """
#include <cstdint>
#include <cstdlib>
#include <cstdio>
#include <pthread.h>
int main() { return pthread_create(nullptr, nullptr, nullptr, nullptr) + (int)arc4random(); }
"""


def test_a_newer_symbol_and_a_further_library_are_named(tmp_path):
    (tmp_path / "new.cpp").write_text(SOURCE)
    subprocess.run(["g++", "-fno-builtin", "-o", tmp_path / "new", tmp_path / "new.cpp",
                    "-Wl,--no-as-needed", "-lstdc++"], check=True, timeout=LIMIT)
    done = check(tmp_path / "new")
    assert done.returncode == 1
    assert f"{tmp_path}/new: pthread_create needs glibc 2.34, newer than 2.28" in done.stdout
    assert f"{tmp_path}/new: arc4random needs glibc 2.36, newer than 2.28" in done.stdout
    assert f"{tmp_path}/new: needs the library libstdc++.so.6" in done.stdout


def all_is_right(lines):
    return len(lines) == 11 and all(line.endswith(": ok") for line in lines[1:])


def test_what_stands_in_for_glibc_does_as_glibc_does():
    done = subprocess.run([BIN / "glibc_program"], capture_output=True, text=True, timeout=LIMIT,
                          check=True)
    assert all_is_right(done.stdout.splitlines()), done.stdout


@pytest.mark.slow
def test_programs_run_on_the_oldest_system_that_can_be_had_here(cluster, tmp_path):
    root = old_root.make(tmp_path / "root")
    for program in (*PROGRAMS, BIN / "glibc_program"):
        subprocess.run(["cp", program, root / "usr/local/bin"], check=True)
    said = Program(cluster, "glibc", old_root.inside(root, "glibc_program"))
    assert said.wait() == 0, said.err()
    lines = said.out().splitlines()
    assert lines[0] == "glibc 2.31" and all_is_right(lines), said.out()
    # A name that is only in the files of this root is resolved as that system is configured.
    with (root / "etc/hosts").open("a") as hosts:
        hosts.write("127.0.0.1 head.of.the.old.cluster\n")
    (root / "job.sh").write_text('echo "rank $RANK of $WORLD_SIZE"\n')
    line = ["ddprun", "--nnodes", "2", "--nproc-per-node", "1", "--no-python", "sh", "/job.sh"]
    port = cluster.daemon(0).port
    agents = [Program(cluster, name, old_root.inside(
        root, *line[:-3], "--node-id", name, "--rdzv-endpoint",
        f"head.of.the.old.cluster:{port}", *line[-3:])) for name in ("a", "b")]
    for agent in agents:
        assert agent.wait() == 0, agent.err()
    assert sorted(line.partition("] ")[2] for agent in agents
                  for line in agent.out().splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
