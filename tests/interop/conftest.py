import os
import pathlib
import signal
import sys

# Otherwise PyTorch's client prints a C++ backtrace for each time-out that these tests provoke.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
os.environ.setdefault("TORCH_SHOW_CPP_STACKTRACES", "0")
# PyTorch's client looks up the name of each address that it connects to. If the resolver does not
# always answer, a lost query should not cost 5 s.
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
# A shell starts its background jobs with these signals ignored, and the processes that the tests
# start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import pytest  # noqa: E402
import store_client  # noqa: E402

from torchrun import ForkServer  # noqa: E402

from tests.support.cluster import Cluster, wait_for  # noqa: E402
from tests.support.seed import add_seed  # noqa: E402


@pytest.fixture
def server():
    with store_client.our_store() as server:
        yield server


@pytest.fixture
def store(server):
    return store_client.connect(server.port)


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    # They end by themselves after a torchrun or an agent has ended.
    wait_for("Python's resource trackers and our guardians to be gone",
             lambda: not any("resource_tracker" in line or "ddp-guardian" in line
                             for line in made.marked().values()))
    left = made.left_behind()
    made.close()
    assert not made.crashes(), made.crashes()
    assert not left, left


@pytest.fixture(scope="session")
def torchrun():
    """Starts torchrun processes that need not import PyTorch."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def both():
    """A store of ours and one of PyTorch's for the differential tests, which renew them."""
    with store_client.our_store() as ours, store_client.pytorch_store() as theirs:
        yield ours, theirs


def pytest_addoption(parser):
    group = parser.getgroup("differential", "differential tests: a long run, or a failed one again")
    add_seed(parser)
    group.addoption("--rounds", type=int, default=3, help="so many runs, from seed 1")
    group.addoption("--operations", type=int, default=150, help="in each run, of each client")
    group.addoption("--clients", type=int, default=5, help="that run at the same time")


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--seed")
        rounds = metafunc.config.getoption("--rounds")
        metafunc.parametrize("seed", range(1, rounds + 1) if seed is None else [seed])
