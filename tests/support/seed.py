"""The option --seed of randomised tests, shared by all their folders."""


def add_seed(parser):
    """Two conftest.py may add it in one run of pytest, which accepts each option only once."""
    try:
        parser.addoption("--seed", type=int, help="what failed with this seed, again: the chaos "
                         "test's first, the only one of the differential tests")
    except ValueError:
        pass  # the other one was first
