import os
import pathlib
import sys

# PyTorch's client prints a C++ backtrace for each time-out that these tests provoke.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
os.environ.setdefault("TORCH_SHOW_CPP_STACKTRACES", "0")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import pytest  # noqa: E402
import store_client  # noqa: E402


@pytest.fixture
def server():
    with store_client.our_store() as server:
        yield server


@pytest.fixture
def store(server):
    return store_client.connect(server.port)


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=None, help="of one differential run")
    parser.addoption("--rounds", type=int, default=4, help="differential runs, from seed 1")
    parser.addoption("--operations", type=int, default=150, help="in each differential run")
