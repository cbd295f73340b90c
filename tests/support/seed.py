"""The option --seed of the tests that draw: one for all of their folders."""


def add_seed(parser):
    """Two conftest.py may ask for it in one run of pytest, which takes each option once."""
    try:
        parser.addoption("--seed", type=int, help="what failed with this seed, again: the chaos "
                         "test's first, the only one of the differential tests")
    except ValueError:
        pass  # the other one was first
