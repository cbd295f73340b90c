"""Random kills, signals and stops of real processes: see tests/support/chaos.py.

By default it runs one short episode; `tests/cluster/chaos --seconds 600 --seed 7` runs one after
the other, each with the next seed. `--seed N` alone repeats episode N.
"""

import math

import pytest

from tests.support.chaos import Chaos
from tests.support.chaos_plan import setting_of
from tests.support.cluster import LIMIT

EPISODE_SECONDS = 15
SEED = 2597  # its settings have children that leave their session


def pytest_generate_tests(metafunc):
    if "seed" not in metafunc.fixturenames:
        return
    seconds = metafunc.config.getoption("--seconds", None) or EPISODE_SECONDS
    first = metafunc.config.getoption("--seed", None)
    first = SEED if first is None else first
    seeds = range(first, first + math.ceil(seconds / EPISODE_SECONDS))
    metafunc.parametrize("seed", [pytest.param(seed, id=f"seed-{seed}") for seed in seeds])


@pytest.mark.timeout(10 * LIMIT)
def test_whatever_dies_one_whole_round_lives(seed, tmp_path):
    setting = setting_of(seed)
    print(f"--seed {seed}: {setting}")
    chaos = Chaos(setting, tmp_path, say=print)
    try:
        chaos.run(EPISODE_SECONDS)
    finally:
        chaos.close()
