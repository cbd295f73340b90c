"""Types the examples of rendezvous/PROTOCOL.md into a real daemon and compares what comes back."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
NC_LIMIT = "60"


def examples():
    """Every fenced block of PROTOCOL.md that is a conversation, as a list of (mark, line)."""
    text = (ROOT / "rendezvous/PROTOCOL.md").read_text()
    blocks = re.findall(r"^```\n(.*?)^```", text, re.S | re.M)
    for block in blocks:
        lines = block.splitlines()
        if all(line.startswith((">", "<")) for line in lines):
            yield [(line[0], line[2:]) for line in lines]


@pytest.fixture()
def port(tmp_path):
    daemon = subprocess.Popen(
        [BIN / "ddprun-rendezvous", "--bind", "127.0.0.1", "--port", "0", "--recovery-window", "0"],
        stdout=subprocess.PIPE, stderr=(tmp_path / "log").open("w"), text=True)
    yield daemon.stdout.readline().split()[-1]
    daemon.terminate()
    assert daemon.wait(180) == 0


def pattern_of(line, values):
    """A line of the page as a pattern: * is anything, $name is remembered from its first use."""
    parts = re.split(r"(\*|\$[a-z]+)", line)
    pattern = ""
    for part in parts:
        name = part[1:]
        if part == "*":
            pattern += ".*"
        elif part.startswith("$") and name in values:
            pattern += re.escape(values[name])
        elif part.startswith("$"):
            pattern += f"(?P<{name}>[^\"]+)"
        else:
            pattern += re.escape(part)
    return pattern


def fill(line, values):
    return re.sub(r"\$([a-z]+)", lambda found: values[found[1]], line)


def test_the_page_has_examples():
    assert len(list(examples())) >= 5


@pytest.mark.parametrize("example", list(examples()), ids=lambda one: one[0][1][:40])
def test_example(port, example):
    with subprocess.Popen(["nc", "-w", NC_LIMIT, "127.0.0.1", port], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, bufsize=1) as nc:
        values = {}
        for mark, line in example:
            if mark == ">":
                nc.stdin.write(fill(line, values) + "\n")
                nc.stdin.flush()
                continue
            heard = nc.stdout.readline().rstrip("\n")
            found = re.fullmatch(pattern_of(line, values), heard)
            assert found, f"expected {line!r}, heard {heard!r}"
            values.update(found.groupdict())
        nc.stdin.close()
        nc.terminate()
