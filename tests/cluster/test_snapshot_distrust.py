"""A job does not resume for ever from a snapshot after which it always fails
(support/snapshot_job.cpp)."""

import re

from tests.support.cluster import BIN, GO_ON


def test_two_crashes_right_after_resume_and_the_snapshot_before_is_taken(cluster, tmp_path):
    folder = tmp_path / "snapshots"
    agent = cluster.agent("node", *GO_ON, "--max-restarts", 4, workers=2,
                          command=["--no-python", BIN / "snapshot_job", folder])
    assert agent.wait() == 0, agent.err()
    assert re.findall(r"resumed (\d+)", agent.out()) == ["0", "20", "20", "10"]
    said = re.findall(r".*distrust.*", agent.out() + agent.err())
    assert [re.sub(r"^\[node:\d\] ", "", line) for line in said] == [
        f"snapshot {folder}/snapshot-000001-000020 is distrusted, because 2 jobs have resumed from "
        f"it and failed within 10 steps: resuming from {folder}/snapshot-000001-000010, 10 steps "
        "before it"]
    assert "restart 3 of 4" in agent.err() and "restart 4" not in agent.err()
    assert (folder / "snapshot-000004-000015" / "manifest.json").exists()
