"""Training in the simulated pods of a manifest: a pod is lost, and with its successor the job goes
on from the snapshot."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, LOST_SOON, ROOT
from tests.support.needs import needs
from tests.support.pods import Kubelet

yaml = pytest.importorskip("yaml", reason="PyYAML is missing: tests/setup installs it")
needs("torch", "./tests/setup installs it")

SCRIPT = ROOT / "examples" / "01_snapshot_resume" / "train.py"
DIGITS = Path(os.environ.get("DDPRUN_DIGITS", ROOT / ".cache" / "digits.csv"))
LIMIT = 240  # PyTorch is imported
EPOCHS = 100000  # it never ends by itself

pytestmark = pytest.mark.skipif(not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")


@pytest.mark.slow
def test_a_lost_pods_successor_trains_on_from_the_snapshot(cluster, make_hosts, tmp_path):
    line = [BIN / "ddprun", "manifest", "kubernetes", "--nnodes=2", "--image=train:1",
            "--name=train", f"--env=PYTHON_EXEC={sys.executable}", f"--env=DDPRUN_DIGITS={DIGITS}",
            "--rdzv-conf", LOST_SOON, SCRIPT, EPOCHS, 1, "--snapshot-dir", tmp_path / "volume"]
    made = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=True)
    kubelet = Kubelet(cluster, make_hosts(4), list(yaml.safe_load_all(made.stdout)))
    pods = [kubelet.start(index) for index in range(2)]
    pods[0].says(r"epoch \d+ \| snapshot saved", LIMIT)
    pods[1].kill()
    assert kubelet.what_follows(pods[1]) == "Count"
    pods[1] = kubelet.start(1)
    resumed = pods[0].says(r"resuming from snapshot (\S+) at epoch (\d+)", LIMIT)
    assert resumed[1].startswith(str(tmp_path / "volume")) and int(resumed[2]) > 1
    saved = rf"epoch {int(resumed[2])} \| snapshot saved"
    pods[0].says(saved, LIMIT)
    assert len(re.findall("resuming from snapshot", pods[0].out())) == 1, pods[0].out()
    for pod in pods:
        pod.kill()
        pod.wait()
    kubelet.server.process.kill()
    kubelet.server.wait()
    cluster.nothing_left()
