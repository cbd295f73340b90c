"""What the daemon shows to a person or a probe over HTTP."""

import json

import pytest

from tests.support.cluster import get

pytestmark = pytest.mark.main_path


def test_health_and_runs(cluster):
    daemon = cluster.daemon()
    assert get(daemon.port, "/healthz")[0] == 200
    agent = cluster.agent("node-a", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, workers=3)
    agent.says("1 of 2 nodes")
    runs = json.loads(get(daemon.port, "/api/v1/runs")[1])
    text = json.dumps(runs)
    assert "waiting for 1 of 2 nodes; here: node-a (3 workers)" in text, text
    other = cluster.agent("node-b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2)
    cluster.started(1, 4)
    text = get(daemon.port, "/api/v1/runs")[1]
    assert "running" in text and "node-b" in text, text
    cluster.finish(4)
    assert (agent.wait(), other.wait()) == (0, 0)
