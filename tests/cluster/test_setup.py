"""`tests/setup`: which packages it wants, on a machine that has none. Nothing is installed."""

import os
import shutil
import subprocess

import pytest

from tests.support.cluster import ROOT

SETUP = ROOT / "tests" / "setup"


@pytest.fixture
def bare_machine(tmp_path):
    """A PATH with a dpkg that knows no package, and no apt-get."""
    for name in ("bash", "dirname", "sed", "grep", "mkdir", "flock", "id"):
        (tmp_path / name).symlink_to(shutil.which(name))
    dpkg = tmp_path / "dpkg-query"
    dpkg.write_text("#!/bin/sh\nexit 1\n")
    dpkg.chmod(0o755)
    return {**os.environ, "PATH": str(tmp_path)}


def wanted(environment, *words):
    done = subprocess.run([SETUP, *words], capture_output=True, text=True, env=environment,
                          check=False)
    assert done.returncode == 1, done.stderr
    line = done.stderr.splitlines()[-1]
    words, _, names = line.rpartition(": ")
    assert words == "setup: these Debian packages are missing, and there is no apt-get here"
    return set(names.split())


def test_what_is_built_and_run_needs_no_tools_of_the_tests(bare_machine):
    build, everything, sanitizers = (wanted(bare_machine, *words)
                                     for words in (["build"], [], ["sanitizers"]))
    assert {"g++", "cmake", "ninja-build", "libboost1.81-dev", "python3-venv"} <= build
    others = {"slurmctld", "openmpi-bin", "mpich", "buildah", "openssh-server", "debootstrap"}
    assert build < everything < sanitizers
    assert not others & build and others <= everything
    assert "clang-14" in sanitizers - everything


def test_the_demo_asks_for_no_more():
    assert "\n./tests/setup build\n" in (ROOT / "examples" / "demo").read_text()


def test_help_and_a_mistake():
    done = subprocess.run([SETUP, "--help"], capture_output=True, text=True, check=True)
    for words in ("tests/setup build ", "tests/setup sanitizers ", "DDPRUN_PYTHON"):
        assert words in done.stdout
    done = subprocess.run([SETUP, "biuld"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == ("setup: 'biuld': write nothing, build or sanitizers; see tests/setup "
                           "--help\n")
