"""The compiler cache gives what the compiler would, also where headers are precompiled."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not shutil.which("ccache"), reason="ccache is not installed")
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
include(.cmake/CompilerCache.cmake)
add_library(small OBJECT small.cpp)
target_include_directories(small PRIVATE .)
target_precompile_headers(small PRIVATE <small.hpp>)
"""


def build(folder, cache, header, source):
    """Builds a checkout with these two files. `header` is precompiled."""
    (folder / ".cmake").mkdir(parents=True)
    shutil.copy(ROOT / ".cmake/CompilerCache.cmake", folder / ".cmake")
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "small.hpp").write_text("#pragma once\n" + header)
    (folder / "small.cpp").write_text('#include "small.hpp"\n' + source)
    own = {name: value for name, value in os.environ.items()
           if not name.startswith("CCACHE_") and name != "CMAKE_CXX_COMPILER_LAUNCHER"}
    environment = {**own, "CCACHE_DIR": str(cache)}
    text = ""
    for command in (["cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja"],
                    ["cmake", "--build", folder / "build"]):
        done = subprocess.run(command, env=environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text += done.stdout
        assert done.returncode == 0, text


def misses(cache):
    done = subprocess.run(["ccache", "--print-stats"], capture_output=True, text=True, check=True,
                          env={**os.environ, "CCACHE_DIR": str(cache)})
    return int(re.search(r"^cache_miss\t(\d+)$", done.stdout, re.M)[1])


def test_nothing_is_compiled_again_in_another_clone(tmp_path):
    build(tmp_path / "one", tmp_path / "cache", "struct small {};\n", "small it;\n")
    compiled = misses(tmp_path / "cache")
    assert compiled == 2
    build(tmp_path / "folder/other", tmp_path / "cache", "struct small {};\n", "small it;\n")
    assert misses(tmp_path / "cache") == compiled


@pytest.mark.parametrize("header, source", [
    ("// was {}\nstruct small {{}};\n", "small of_{};\n"),
    ("struct small {{}};\n#define NOT_USED_{}\n", "small of_{};\n"),
    ("#define NUMBER {}\n", "static_assert(NUMBER == {});\n"),
], ids=["comment", "unused_macro", "macro"])
def test_a_header_that_has_changed_is_precompiled_anew(tmp_path, header, source):
    """g++ knows by its text that a file with `#pragma once` is in the precompiled header: each
    letter counts, also those that the preprocessor does not pass on."""
    for number in (1, 2):
        build(tmp_path / f"clone-{number}", tmp_path / "cache", header.format(number),
              source.format(number))


def test_a_precompiled_header_serves_another_clone(tmp_path):
    build(tmp_path / "one", tmp_path / "cache", "struct small {};\n", "small it;\n")
    build(tmp_path / "folder/other", tmp_path / "cache", "struct small {};\n", "small other;\n")
    assert misses(tmp_path / "cache") == 3
