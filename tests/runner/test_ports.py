"""tests/support/ports.py: among all processes that run tests at the same time, only one has a given
port."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAKE = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.support.ports import free_port
print(*(free_port() for _ in range(200)), flush=True)
sys.stdin.read()
"""


def test_no_port_is_given_twice():
    takers = [subprocess.Popen([sys.executable, "-c", TAKE, ROOT], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
    ports = [int(port) for taker in takers for port in taker.stdout.readline().split()]
    for taker in takers:
        taker.communicate("")
    assert len(ports) == len(set(ports)) == 600
    assert 4000 <= min(ports) and max(ports) <= 9999
