"""The Python code of warm workers with a newer Python than the one here."""

import shutil
import subprocess

import pytest

from tests.support import old_root
from tests.support.cluster import ROOT

# Those that need neither a program of ours nor PyTorch.
TESTS = [f"tests/cluster/test_warm_{name}.py" for name in ("python", "modules", "random", "files")]


@pytest.mark.slow
@pytest.mark.parametrize("tests", TESTS)
def test_warm_workers_are_the_same_with_python_3_13(tmp_path, tests):
    root = old_root.make(tmp_path / "root", old_root.WITH_PYTHON_3_13)
    for folder in ("tests", "launcher", ".cmake"):
        shutil.copytree(ROOT / folder, root / "src" / folder,
                        ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        old_root.inside(root, "sh", "-c", f"cd /src && python3 -m pytest -q -rs {tests}"),
        check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
