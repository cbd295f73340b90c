"""The programs that listen on ports are hardened as Debian's are (.cmake/Hardening.cmake)."""

import re
import subprocess

import pytest

from tests.support.cluster import BIN, is_built_with

SANITIZED = is_built_with("address", "thread")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True,
                          text=True).stdout


@pytest.mark.skipif(SANITIZED, reason="a build with sanitizers is not hardened")
@pytest.mark.parametrize("name", ["ddprun", "ddprun-nccl-id", "ddprun-rendezvous"])
def test_programs_are_hardened(name):
    program = BIN / name
    assert re.search(r"Type:\s+DYN", readelf("-h", program))
    assert "NOW" in readelf("-d", program)
    assert "GNU_RELRO" in readelf("-l", program)
    symbols = readelf("--dyn-syms", program)
    assert "__stack_chk_fail" in symbols
    assert "_chk@" in symbols.replace("__stack_chk_fail@", ""), "not fortified"
