"""Entries that torch.save, safetensors, DCP and worker/snapshot save to the vault are found again.
"""

import re
import signal
import sys

import pytest

from tests.support.cluster import BIN, GO_ON, ROOT, wait_for
from tests.support.needs import needs

PACKAGE = ROOT / ".cmake" / "package" / "wheel"
pytestmark = pytest.mark.trains


def shown_script():
    """The script of worker/README.md, which dies once in step 25."""
    page = (ROOT / "worker" / "README.md").read_text()
    (script,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.S)
                 if "vault.newest()" in one and "torch.save" in one]
    step = "    step += 1\n"
    assert step in script and "import os" in script
    return script.replace(step, step + "    if step == 25 and os.environ['DDPRUN_ROUND'] == '1':\n"
                                       "        os.kill(os.getpid(), 9)\n")


def run(cluster, tmp_path, script, *options):
    needs("torch", "PyTorch is not installed here")
    file = tmp_path / "train.py"
    file.write_text(script)
    return cluster.agent("node", "--max-restarts", 1, "--vault", tmp_path / "kept", *options,
                         environment={"PYTHON_EXEC": sys.executable, "PYTHONPATH": str(PACKAGE)},
                         command=[file])


def test_the_script_of_the_page_goes_on_from_its_vault(cluster, tmp_path):
    agent = run(cluster, tmp_path, shown_script(), "--vault-rate", "10B")
    assert agent.wait() == 0, agent.err()
    assert re.findall(r"going on from step (\d+)", agent.out()) == ["0", "20"]
    assert "weight 40" in agent.out()
    assert [*(tmp_path / "kept/node-0").glob("*-step-40.pt/files/step-40.pt")]
    # The next day nothing is in memory.
    again = run(cluster, tmp_path, shown_script())
    assert again.wait() == 0, again.err()
    assert re.findall(r"going on from step (\d+)", again.out()) == ["40"]


SAFETENSORS = """
import os, torch
from safetensors.torch import load_file, save_file
from ddprun import vault

newest = vault.newest()
step = int(newest.rpartition("-")[2]) if newest else 0
weight = load_file(newest + "/model.safetensors")["weight"] if newest else torch.zeros(2)
print(f"going on from {weight[0].item():.0f}")
while step < 4:
    step += 1
    weight += 10
    path = os.path.join(vault.folder(), f"step-{step}")
    os.makedirs(path, exist_ok=True)
    save_file({"weight": weight}, path + "/model.safetensors")
    if step == 3 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), 9)  # this one is not marked
    vault.mark(path)
"""


def test_safetensors_are_found_again_where_they_were_marked(cluster, tmp_path):
    pytest.importorskip("safetensors")
    agent = run(cluster, tmp_path, SAFETENSORS)
    assert agent.wait() == 0, agent.err()
    assert re.findall(r"going on from (\d+)", agent.out()) == ["0", "20"]
    again = run(cluster, tmp_path, SAFETENSORS)
    assert again.wait() == 0, again.err()
    assert re.findall(r"going on from (\d+)", again.out()) == ["40"]


DCP = """
import glob, os, torch
import torch.distributed.checkpoint as dcp

vault = os.environ["DDPRUN_VAULT"]
state = {"weight": torch.zeros(8)}
newest = max(glob.glob(f"{vault}/*/.metadata"), key=os.path.getmtime, default=None)
if newest:
    dcp.load(state, checkpoint_id=os.path.dirname(newest), no_dist=True)
print(f"going on from {state['weight'][0].item():.0f}")
state["weight"] += 1
dcp.save(state, checkpoint_id=f"{vault}/save-{int(state['weight'][0])}", no_dist=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os.kill(os.getpid(), 9)
"""


def test_a_dcp_checkpoint_needs_no_marker_of_ours(cluster, tmp_path):
    agent = run(cluster, tmp_path, DCP)
    assert agent.wait() == 0, agent.err()
    assert re.findall(r"going on from (\d+)", agent.out()) == ["0", "1"]
    again = run(cluster, tmp_path, DCP.replace('== "0"', '== "never"'))
    assert again.wait() == 0, again.err()
    assert re.findall(r"going on from (\d+)", again.out()) == ["2"]


def snapshot_job(cluster, tmp_path):
    return cluster.agent("node", *GO_ON, "--max-restarts", 4, "--vault", tmp_path / "kept",
                         workers=2, command=["--no-python", "sh", "-c",
                                             f"exec {BIN / 'snapshot_job'} $DDPRUN_VAULT"])


def test_snapshots_of_a_program_in_cpp_lie_in_the_vault(cluster, tmp_path):
    agent = snapshot_job(cluster, tmp_path)
    assert agent.wait() == 0, agent.err()
    assert re.findall(r"resumed (\d+)", agent.out()) == ["0", "20", "20", "10"]
    assert re.search(r"vault: snapshot-000001-000020 is set aside", agent.err())
    again = snapshot_job(cluster, tmp_path)
    assert again.wait() == 0, again.err()
    assert re.search(r"vault: snapshot-00000\d-000015 \(.*\) is put back", again.err())
    assert re.findall(r"resumed (\d+)", again.out()) == ["15"]


def test_a_warm_worker_is_told_its_vault(cluster, tmp_path):
    script = "import os, json\nprint('vault', os.environ['DDPRUN_VAULT'])\n" + WAIT
    agent = run(cluster, tmp_path, script, "--warm", "1")
    agent.says("1 spare worker waits")
    (tmp_path / "die").touch()
    wait_for("the second life", lambda: agent.out().count("vault /") == 2)
    first, second = re.findall(r"vault (\S+)", agent.out())
    assert first == second
    agent.kill(signal.SIGTERM)
    agent.wait()


WAIT = """
import time
restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
while not (restarts == "0" and os.path.exists(os.path.dirname(os.path.abspath(__file__)) + "/die")):
    time.sleep(0.05)
os.kill(os.getpid(), 9)
"""
