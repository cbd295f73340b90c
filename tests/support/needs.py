"""Packages that a test's programs import."""

from importlib.util import find_spec

import pytest


def needs(package, reason):
    """Skips the test, or at the top of a file all of its tests, if it is not installed. It is not
    imported, as by pytest.importorskip: PyTorch takes two seconds and 300 MB in each process that
    collects the tests."""
    if find_spec(package) is None:
        pytest.skip(reason, allow_module_level=True)
