"""What `cmake --install` installs: the programs, and a CMake package for programs of other
projects."""

import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from tests.support.cluster import BIN, ROOT, Program

BUILD = BIN.parent
COMPILES_S = 3600  # LibTorch's headers; on a busy machine 14 minutes were not enough
pytestmark = pytest.mark.timeout(COMPILES_S + 100)

# A source is not compiled again as long as neither it nor the installed files have changed, because
# the cache takes paths relative to the test's folder.
LAUNCHER = "-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_BASEDIR={};CCACHE_NOHASHDIR=1;ccache"


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=COMPILES_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def prefix(tmp_path):
    cache = (BUILD / "CMakeCache.txt").read_text()
    if "DDPRUN_SANITIZE:STRING=\n" not in cache:
        pytest.skip("a sanitizer's build is not installed")
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "prefix")
    return tmp_path / "prefix"


def configure_outside(tmp_path, prefix, main, find, library, *options):
    """Configures a program of another project; returns its build folder, and CMake's exit status
    and output."""
    tree = tmp_path / "outside"
    tree.mkdir(exist_ok=True)
    (tree / "main.cpp").write_text(main)
    (tree / "CMakeLists.txt").write_text(textwrap.dedent(f"""
        cmake_minimum_required(VERSION 3.25)
        project(outside LANGUAGES CXX)
        find_package(ddprun 0.1 REQUIRED {find})
        find_package(ddprun 0.1 REQUIRED {find})  # as a library of theirs might, too
        add_executable(outside main.cpp)
        target_link_libraries(outside PRIVATE {library})
        """))
    launcher = [LAUNCHER.format(tmp_path)] if shutil.which("ccache") else []
    done = subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja",
                           f"-DCMAKE_PREFIX_PATH={prefix}", *launcher, *options],
                          capture_output=True, text=True, timeout=COMPILES_S)
    return tree / "build", done.returncode, done.stdout + done.stderr


def test_a_program_of_another_tree_uses_the_worker_library(cluster, tmp_path, prefix):
    # Each header includes what it needs.
    headers = sorted(path.relative_to(prefix / "include").as_posix()
                     for path in (prefix / "include/ddprun/worker").glob("*.hpp"))
    headers += sorted(path.relative_to(prefix / "include").as_posix()
                      for path in (prefix / "include/ddprun/worker/snapshot").glob("*.hpp"))
    assert "ddprun/worker/store_client.hpp" in headers
    assert "ddprun/worker/roll_call.hpp" not in headers  # only headers that a program can include
    example = (ROOT / "examples/02_store_client/main.cpp").read_text()
    includes = "".join(f"#include <{header}>\n" for header in headers)
    build, status, words = configure_outside(tmp_path, prefix, includes + example, "",
                                             "ddprun::worker")
    assert status == 0, words
    run("cmake", "--build", build)
    job = Program(cluster, "job", [prefix / "bin/ddprun", "--standalone", "--nproc-per-node", "2",
                                   "--no-python", build / "outside"])
    assert job.wait() == 0, job.err()
    assert "rank 1 of 2" in job.out()


def without_numbers(lines):
    """The output, without how small the loss became."""
    return sorted(re.sub(r"\d\.\de-\d+", "", lines).splitlines())


def configure_with(component, tmp_path, prefix, main="int main() {}\n"):
    return configure_outside(tmp_path, prefix, main, f"COMPONENTS {component}",
                             f"ddprun::worker_{component}", f"-DDDPRUN_PYTHON={sys.executable}")


def change_config(prefix, name, value):
    """Sets a variable of the installed package to another value."""
    config = prefix / "lib/cmake/ddprun/ddprunConfig.cmake"
    text, count = re.subn(rf'set\({name} ".*"\)', f'set({name} "{value}")', config.read_text())
    assert count == 1
    config.write_text(text)


JOIN = """
#include <ddprun/worker/nccl/communicator.hpp>
#include <cstdio>
int main() {
  using namespace ddprun::worker;
  try {
    auto all = communicator::join(read_environment());
    all.close(std::chrono::seconds(30));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\\n", error.what());
    return 3;
  }
}
"""


def test_a_program_of_another_tree_uses_nccl(cluster, tmp_path, prefix):
    if not (prefix / "lib/libddprun_worker_nccl.a").exists():
        pytest.skip("built without NCCL")
    build, status, words = configure_with("nccl", tmp_path, prefix, JOIN)
    assert status == 0, words
    run("cmake", "--build", build)
    job = Program(cluster, "job", [prefix / "bin/ddprun", "--nproc-per-node", "1", "--no-python",
                                   build / "outside"])
    # Without a GPU it says so; with one it joins, with an id of its own.
    assert job.wait() == 0 or "no GPU is visible" in job.err(), job.err()


def test_a_component_that_was_not_built_is_named(tmp_path, prefix):
    change_config(prefix, "built", "")
    _, status, words = configure_with("nccl", tmp_path, prefix)
    assert status != 0
    assert "built without its component nccl" in " ".join(words.split()), words


def test_the_readme_program_trains_with_the_libtorch_that_it_was_built_with(cluster, tmp_path,
                                                                            prefix):
    if not (prefix / "lib/libddprun_worker_torch.a").exists():
        pytest.skip("built without LibTorch")
    shown = re.search(r"\$ cat main.cpp\n(.*?)\n\$ cmake .*?\n"
                      r"\$ ddprun (.*?) build/train\n(.*?)```",
                      (ROOT / "worker/README.md").read_text(), re.S)
    build, status, words = configure_with("torch", tmp_path, prefix, shown[1])
    assert status == 0, words
    run("cmake", "--build", build)
    command = [prefix / "bin/ddprun", *shown[2].split(), build / "outside"]
    job = Program(cluster, "job", command, cwd=tmp_path)
    assert job.wait() == 0, job.err()
    assert without_numbers(job.out()) == without_numbers(shown[3])
    again = Program(cluster, "again", command, cwd=tmp_path)
    assert again.wait() == 0, again.err()
    assert again.out() == ("[node-a:0] snapshot snapshots/snapshot-000001-000100: all 10 epochs "
                           "are done\n")
    alone = Program(cluster, "alone", [build / "outside"])  # without a launcher's variables
    assert alone.wait() == 1
    assert re.fullmatch(r"outside: .* is not set.*\n", alone.err()), alone.err()
    change_config(prefix, "built_with", "2.0.1")
    _, status, words = configure_with("torch", tmp_path, prefix)
    assert status != 0
    assert "built with PyTorch 2.0.1" in " ".join(words.split()), words


def test_no_path_of_the_build_is_in_the_package(prefix):
    for file in (prefix / "lib").rglob("*.cmake"):
        if file.name.startswith("ddprun"):  # the others look for what is installed
            assert str(ROOT) not in file.read_text(), file
    for program in ("ddprun", "ddprun-nccl-id", "ddprun-rendezvous"):
        assert os.access(prefix / "bin" / program, os.X_OK)
