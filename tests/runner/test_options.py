"""pytest takes the options of several folders in one run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_cluster_and_interop_go_into_one_run():
    one_of_each = ("tests/cluster/test_chaos.py", "tests/interop/test_differential.py")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--collect-only", "-p",
                           "no:cacheprovider", "--seed", "5", *one_of_each],
                          cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lives[seed-5]" in done.stdout, done.stdout  # test_chaos
    assert "same[5]" in done.stdout, done.stdout  # test_differential
