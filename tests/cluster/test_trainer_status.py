"""A TrainJob's pod reports its progress to Kubeflow's Trainer."""

import os
import re
import sys

import pytest

from tests.support.cluster import LIMIT
from tests.support.ports import free_port
from tests.support.status_server import StatusServer, certificate

# Draws a bar as tqdm does, and goes on when the test opens the gate.
SCRIPT = """
import sys
bar = "Training:  45%|####5     | 450/1000 [01:00<01:20,  7.5it/s]"
sys.stderr.write("\\rTraining:  44%|####4     | 440/1000 [00:59<01:21,  7.5it/s]\\r" + bar)
sys.stderr.flush()
open(sys.argv[1]).read()
"""


@pytest.fixture
def job(cluster, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    os.mkfifo(tmp_path / "gate")

    def start(server, **environment):
        return cluster.agent("", command=[script, tmp_path / "gate"], environment={
            "KUBEFLOW_TRAINER_SERVER_URL": server.url, "PYTHON_EXEC": sys.executable,
            **{name: str(value) for name, value in environment.items()}})
    return start


def open_gate(tmp_path):
    (tmp_path / "gate").write_text("")


@pytest.mark.main_path
def test_progress_over_https(job, tmp_path):
    own = certificate(tmp_path, "own")
    token = tmp_path / "token"
    token.write_text("first\n")
    with StatusServer(free_port(), own) as server:
        agent = job(server, KUBEFLOW_TRAINER_SERVER_CA_CERT=own[1],
                    KUBEFLOW_TRAINER_SERVER_TOKEN=token)
        status, path, authorization, body = server.words.get(timeout=LIMIT)
        assert (status, path, authorization) == (200, server.path, "Bearer first")
        told = body["trainerStatus"]
        assert told["metrics"] == [{"name": "ddprun_round", "value": "1"},
                                   {"name": "ddprun_restarts", "value": "0"}]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["lastUpdatedTime"])
        while "progressPercentage" not in told:
            told = server.words.get(timeout=LIMIT)[3]["trainerStatus"]
        assert (told["progressPercentage"], told["estimatedRemainingSeconds"]) == (45, 80)
        token.write_text("second\n")  # it is renewed while the job runs
        open_gate(tmp_path)
        assert agent.wait() == 0, agent.err()
        _, _, authorization, body = server.words.get(timeout=LIMIT)
        assert authorization == "Bearer second"
        assert body["trainerStatus"]["progressPercentage"] == 100
        assert server.words.empty()


def test_a_server_that_is_busy_is_told_again(job, tmp_path):
    with StatusServer(free_port()) as server:
        server.answers.put(503)
        agent = job(server)
        assert server.words.get(timeout=LIMIT)[0] == 503
        assert server.words.get(timeout=LIMIT)[0] == 200
        agent.says(re.escape(server.url) + ": HTTP 503 Service Unavailable")
        open_gate(tmp_path)
        assert agent.wait() == 0


def test_a_server_of_another_authority_is_told_nothing(job, tmp_path):
    with StatusServer(free_port(), certificate(tmp_path, "own")) as server:
        agent = job(server, KUBEFLOW_TRAINER_SERVER_CA_CERT=certificate(tmp_path, "other")[1])
        agent.says(re.escape(server.url) + ": its certificate: ")
        open_gate(tmp_path)
        assert agent.wait() == 0
        assert agent.err().count("its certificate: ") == 1
        assert server.words.empty()


def test_a_script_that_tells_itself(job, tmp_path):
    with StatusServer(free_port()) as server:
        agent = job(server, DDPRUN_TRAINER_STATUS="off")
        open_gate(tmp_path)
        assert agent.wait() == 0
        assert server.words.empty()


def test_only_rank_0_tells(cluster, tmp_path):
    daemon = cluster.daemon(None)
    script = tmp_path / "train.py"
    script.write_text("")
    with StatusServer(free_port()) as server:
        agents = [cluster.agent(name, endpoint=f"127.0.0.1:{daemon.port}", nnodes="2",
                                command=[script],
                                environment={"KUBEFLOW_TRAINER_SERVER_URL": server.url,
                                             "PYTHON_EXEC": sys.executable})
                  for name in ("one", "two")]
        assert [agent.wait() for agent in agents] == [0, 0]
        told = [server.words.get_nowait()[3]["trainerStatus"] for _ in range(server.words.qsize())]
    assert [each.get("progressPercentage") for each in told].count(100) == 1
