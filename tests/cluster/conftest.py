"""Fixtures of the cluster tests: `cluster` starts programs, `hosts` makes network namespaces."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.cluster import Cluster  # noqa: E402
from tests.support.doctors import Doctors  # noqa: E402
from tests.support.hosts import Switch, available  # noqa: E402
from tests.support.seed import add_seed  # noqa: E402
from tests.support.slow_switch import SlowSwitch  # noqa: E402
from tests.support.slow_switch import available as taps_available  # noqa: E402
from tests.support.small_disk import mounted  # noqa: E402
from tests.support.sshd import SshNet  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--seconds", type=float, help="how long the chaos test runs (one episode)")
    add_seed(parser)


def pytest_configure(config):
    for line in ("trains: computes with PyTorch or LibTorch; what is named *torch* does",
                 "slow: takes half a minute and more; DDPRUN_TEST_SLOW=1 runs it",
                 "main_path: each of our programs on its main path, for the sanitizers"):
        config.addinivalue_line("markers", line)


def pytest_itemcollected(item):
    if "torch" in item.path.name:
        item.add_marker("trains")


def pytest_runtest_setup(item):
    if item.get_closest_marker("slow") and "DDPRUN_TEST_SLOW" not in os.environ:
        pytest.skip("slow: tests/run slow, or DDPRUN_TEST_SLOW=1, runs it")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call":
        item.stash[passed_key] = report.passed  # a failed test needs no further message
    cluster = getattr(item, "_cluster", None)
    if report.when == "call" and report.failed and cluster is not None:
        report.sections.append(("programs", cluster.report()))


@pytest.fixture
def cluster(tmp_path, request):
    made = Cluster(tmp_path)
    request.node._cluster = made
    yield made
    left = made.left_behind() if request.node.stash.get(passed_key, True) else ""
    made.close()
    assert not made.crashes(), made.crashes()
    assert not left, left


passed_key = pytest.StashKey()


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk") as folder:
        yield folder


@pytest.fixture
def make_hosts(cluster):
    """Makes N hosts behind one switch; skips if namespaces are not allowed."""

    def make(count, ipv6=False):
        if not available():
            pytest.skip("this machine does not allow network namespaces (needs root)")
        switch = Switch(count, ipv6)
        cluster.hosts.append(switch)
        return switch.hosts

    return make


@pytest.fixture
def make_slow_hosts(cluster):
    """Like make_hosts, behind a switch that delays all frames and loses some."""

    def make(count, delay, loss):
        if not available() or not taps_available():
            pytest.skip("this machine does not allow network namespaces or TAP devices")
        switch = SlowSwitch(count, delay, loss)
        cluster.hosts.append(switch)
        return switch.hosts

    return make


@pytest.fixture
def doctors(cluster, make_hosts):
    """Makes the doctors of N hosts, none of which has started."""
    return lambda count, **options: Doctors(cluster, make_hosts(count), **options)


@pytest.fixture
def net(cluster):
    """Hosts that ssh reaches; skips if no sshd is installed."""
    made = SshNet(cluster)
    yield made
    for server in made.servers:
        if server.program.running():
            server.program.process.terminate()  # its sessions end by themselves, or are reported
            server.program.wait()
