"""Other people's libraries, in an environment of their own that ./tests/run programs makes."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cluster.conftest import cluster, pytest_runtest_makereport  # noqa: E402, F401


@pytest.fixture
def needs():
    """Skips where that package is not installed, without importing it here."""

    def check(name):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed in {sys.prefix}: "
                        "./tests/run programs makes an environment that has it")

    return check
