"""What tests of the Python code of warm workers share: an environment of their own, agents, and the
scripts that they run. Tests import the fixtures that they use."""

import os
import subprocess
import textwrap

import pytest

from tests.support.warm_agent import WarmAgent, ahead, base_python


@pytest.fixture
def environment(tmp_path):
    """A Python environment in whose site-packages a test may install anything."""
    folder = tmp_path / "environment"
    subprocess.run([base_python(), "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return folder / "bin" / "python", packages


@pytest.fixture
def make_agent(environment, tmp_path):
    made = []

    def make(words, **more):
        own = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "RANK", "TORCHELASTIC_RESTART_COUNT")}
        made.append(WarmAgent(environment[0], words, {
            **own, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", "PYTHONHASHSEED": "1",
            "DDPRUN_TEST_CONTROL": str(tmp_path), **more}))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.fixture
def packages(environment):
    return environment[1]


def learnt(agent):
    first = agent.cold(is_recorded=True, RANK="0", TORCHELASTIC_RESTART_COUNT="0")
    answer = agent.load()
    assert answer.startswith("ready "), (answer, first)
    return answer


def script_of(tmp_path, text):
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nis_warm = {ahead('decimal')}\n" + textwrap.dedent(text))
    return script
