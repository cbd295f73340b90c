"""`--nccl-ids auto`, the default: ids are made if a GPU is visible and ddprun-nccl-id is installed,
and no job ever suffers from them. The GPU exists only in the driver's folder."""

import re
import shutil

import pytest

from tests.support.cluster import BIN, Program
from tests.support.gpus import visible_gpus
from tests.support.installed_nccl import installed_nccl
from tests.support.machines import with_gpus

NCCL = installed_nccl()
pytestmark = pytest.mark.skipif(NCCL is None, reason="this Python has no NCCL (nvidia-nccl-cu13)")
BY_PATH = {"DDPRUN_NCCL_LIBRARY": str(NCCL), "DDPRUN_NCCL_IDS": "of another run"}


@pytest.fixture(autouse=True)
def all_gpus_are_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def ids_of(cluster, *arguments, program=None, environment=None, gpus=1):
    """Returns what the worker has got, and the agent, which has succeeded."""
    line = cluster.agent_line("node-a", *arguments)
    agent = Program(cluster, "node-a", [program or line[0], *line[1:]],
                    prefix=with_gpus(gpus) if gpus else (),
                    environment={**BY_PATH, **(environment or {})})
    cluster.started(1, 1)
    cluster.order(0, 'say ids value="$DDPRUN_NCCL_IDS"; exit 0')
    assert agent.wait() == 0
    cluster.nothing_left()
    return cluster.events("ids")[0].value, agent


@pytest.mark.parametrize("arguments", [[], ["--nccl-ids=auto"]], ids=["default", "auto"])
def test_they_are_made_where_a_gpu_is_visible(cluster, arguments):
    ids, agent = ids_of(cluster, *arguments)
    assert re.fullmatch("[0-9a-f]{32,256}", ids)
    assert "nccl" not in agent.err()


@pytest.mark.skipif(visible_gpus() > 0, reason="there is a GPU here")
def test_none_are_made_where_there_is_none(cluster):
    ids, agent = ids_of(cluster, gpus=0)
    assert ids == "", "never those of another run"
    assert "nccl" not in agent.err()


def test_none_are_made_where_the_person_hides_it(cluster):
    ids, agent = ids_of(cluster, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert ids == ""
    assert "nccl" not in agent.err()


def test_none_are_made_where_they_are_off(cluster):
    ids, agent = ids_of(cluster, "--nccl-ids=off")
    assert ids == ""
    assert "nccl" not in agent.err()


def test_a_library_that_cannot_be_loaded_is_a_warning_and_the_job_runs(cluster, tmp_path):
    wrong = tmp_path / "libnccl.so.2"
    wrong.write_text("no library")
    ids, agent = ids_of(cluster, environment={"DDPRUN_NCCL_LIBRARY": str(wrong)})
    assert ids == "", "never those of another run"
    said = re.findall("warning: (.*nccl.*)", agent.err())
    assert len(said) == 1, agent.err()
    assert re.fullmatch(rf"ddprun-nccl-id: NCCL cannot be loaded: {wrong}: .*; install it beside "
                        r"the workers' PyTorch, or name it in DDPRUN_NCCL_LIBRARY; the workers "
                        r"get no DDPRUN_NCCL_IDS \(--nccl-ids=off: none are made\)", said[0])


def test_where_the_helper_is_not_installed_nothing_is_said(cluster, tmp_path):
    alone = tmp_path / "alone" / "ddprun"
    alone.parent.mkdir()
    shutil.copy2(BIN / "ddprun", alone)
    ids, agent = ids_of(cluster, program=alone)
    assert ids == ""
    assert "nccl" not in agent.err()
