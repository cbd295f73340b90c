"""What `cmake --install` brings: the programs, and a CMake package for programs of other trees."""

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.support.cluster import BIN, ROOT, Program

BUILD = BIN.parent


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def prefix(tmp_path):
    cache = (BUILD / "CMakeCache.txt").read_text()
    if "DDPRUN_SANITIZE:STRING=\n" not in cache:
        pytest.skip("a sanitizer's build is not installed")
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "prefix")
    return tmp_path / "prefix"


def build_outside(tmp_path, prefix, sources, find, library):
    """A program of a tree of its own; its path."""
    tree = tmp_path / "outside"
    tree.mkdir()
    for name, text in sources.items():
        (tree / name).write_text(text)
    (tree / "CMakeLists.txt").write_text(textwrap.dedent(f"""
        cmake_minimum_required(VERSION 3.25)
        project(outside LANGUAGES CXX)
        find_package(ddprun 0.1 REQUIRED {find})
        add_executable(outside main.cpp)
        target_link_libraries(outside PRIVATE {library})
        target_compile_features(outside PRIVATE cxx_std_20)
        """))
    run("cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tree / "build")
    return tree / "build" / "outside"


def test_a_program_of_another_tree_uses_the_worker_library(cluster, tmp_path, prefix):
    # Each header by itself finds what it needs.
    headers = sorted(path.relative_to(prefix / "include").as_posix()
                     for path in (prefix / "include/ddprun/worker").glob("*.hpp"))
    assert "ddprun/worker/store_client.hpp" in headers
    example = (ROOT / "examples/02_store_client/main.cpp").read_text()
    includes = "".join(f"#include <{header}>\n" for header in headers)
    outside = build_outside(tmp_path, prefix, {"main.cpp": includes + example}, "",
                            "ddprun::worker")
    job = Program(cluster, "job", [prefix / "bin/ddprun", "--standalone", "--nproc-per-node", "2",
                                   "--no-python", outside])
    assert job.wait() == 0, job.err()
    assert "rank 1 of 2" in job.out()


def test_no_path_of_the_build_is_in_the_package(prefix):
    for file in (prefix / "lib").rglob("*.cmake"):
        if file.name != "Torch.cmake":
            assert str(ROOT) not in file.read_text(), file
    for program in ("ddprun", "ddprun-rendezvous"):
        assert os.access(prefix / "bin" / program, os.X_OK)
