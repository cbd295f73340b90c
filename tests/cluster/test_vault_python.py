"""ddprun.vault by itself: what it marks, and what it finds."""

import importlib
import os
import subprocess
import sys
import types

import pytest

from tests.support.cluster import ROOT
from tests.support.needs import needs

PACKAGE = ROOT / ".cmake" / "package" / "wheel"


@pytest.fixture
def vault(monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE))
    for name in [one for one in sys.modules if one.partition(".")[0] == "ddprun"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("ddprun.vault")


@pytest.fixture
def place(vault, monkeypatch, tmp_path):
    made = tmp_path / "vault"
    made.mkdir()
    monkeypatch.setenv("DDPRUN_VAULT", str(made))
    return made


def save(path, at, text="state"):
    """Saves an entry whose time is so many seconds after 1970."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def test_under_another_launcher_nothing_is_marked_or_found(vault, monkeypatch, tmp_path):
    monkeypatch.delenv("DDPRUN_VAULT", raising=False)
    saved = save(tmp_path / "step-1.pt", 1)
    assert vault.mark(saved) is False
    assert (vault.folder(), vault.newest()) == (None, None)
    assert [one.name for one in tmp_path.iterdir()] == ["step-1.pt"]


def test_a_file_and_a_folder_are_marked_and_the_newest_is_found(vault, place):
    assert vault.newest() is None
    save(place / "step-1.pt", 1)
    assert vault.newest() is None
    assert vault.mark("step-1.pt")
    assert (place / "step-1.pt.complete").is_file()
    assert vault.newest() == str(place / "step-1.pt")
    save(place / "step-2" / "deep" / "state.pt", 1)
    assert vault.mark(place / "step-2")
    assert (place / "step-2" / ".complete").is_file()
    os.utime(place / "step-1.pt.complete", (5, 5))
    assert vault.newest() == str(place / "step-2")
    assert vault.mark("step-1.pt")  # saved again
    os.utime(place / "step-2" / ".complete", (6, 6))
    assert vault.newest() == str(place / "step-1.pt")


def test_what_is_written_to_after_its_mark_is_not_complete(vault, place):
    save(place / "step-1" / "state.pt", 1)
    save(place / "step-2" / "state.pt", 1)
    save(place / "step-1" / ".complete", 2, "")
    save(place / "step-2" / ".complete", 3, "")
    assert vault.newest() == str(place / "step-2")
    save(place / "step-2" / "state.pt", 4)
    assert vault.newest() == str(place / "step-1")
    assert vault.mark("step-2")
    assert vault.newest() == str(place / "step-2")


def test_a_part_of_an_entry_is_no_entry_and_a_marker_alone_neither(vault, place):
    save(place / "out" / "part" / "state.pt", 1)
    save(place / "out" / "part" / ".complete", 9, "")
    save(place / "out" / ".complete", 9, "")
    save(place / "gone.pt.complete", 20, "")
    save(place / ".complete", 21, "")
    assert vault.newest() == str(place / "out")


def test_a_dcp_checkpoint_is_found_and_a_mark_of_ours_goes_before(vault, place):
    save(place / "save-1" / "__0_0.distcp", 1)
    save(place / "save-1" / ".metadata", 2)
    save(place / "out" / "save-9" / "__0_0.distcp", 1)
    save(place / "out" / "save-9" / ".metadata", 9)  # not directly in the vault's folder
    assert vault.newest() == str(place / "save-1")
    save(place / "save-1" / "dataloader.pt", 3)
    assert vault.newest() is None
    assert vault.mark("save-1")
    assert vault.newest() == str(place / "save-1")


def test_a_part_of_a_dcp_checkpoint_is_neither_marked_nor_found(vault, place):
    """As a Trainer saves with FSDP, on a node without the coordinator: without the .metadata what
    its ranks have written is worth nothing."""
    saved = place / "out" / "checkpoint-5"
    save(saved / "trainer_state.json", 1)
    save(saved / "optimizer_0" / "__2_0.distcp", 1)
    save(saved / "optimizer_0" / ".metadata", 1)
    save(saved / "pytorch_model_fsdp_0" / "__2_0.distcp", 1)
    with pytest.warns(UserWarning) as told:
        assert vault.mark("out/checkpoint-5") is False
    assert [str(one.message) for one in told] == [
        f"{saved} is not marked: {saved}/pytorch_model_fsdp_0 has files of a DCP checkpoint and no "
        ".metadata: it is not yet written, or ranks of several nodes save it together (use a "
        "folder that all of them share)"]
    assert not [*place.rglob(".complete")]
    save(saved / ".complete", 2, "")  # by other means
    assert vault.newest() is None
    save(saved / "pytorch_model_fsdp_0" / ".metadata", 1)
    assert vault.newest() == str(saved)
    assert vault.mark("out/checkpoint-5")


def test_what_is_not_in_the_vault_is_not_marked(vault, place, tmp_path):
    save(tmp_path / "vault-of-another" / "state.pt", 1)
    for path in (tmp_path / "vault-of-another", "../vault-of-another", place, "."):
        with pytest.warns(UserWarning, match="it is not in the vault"):
            assert vault.mark(path) is False
    with pytest.raises(FileNotFoundError, match="step-7 cannot be marked"):
        vault.mark("step-7")
    assert not [*tmp_path.rglob("*.complete")]


# It is called as a Trainer would call it; `tests/run programs` has transformers itself.
CALLBACK = """
import os, sys, types
transformers = types.ModuleType("transformers")
transformers.TrainerCallback = type("TrainerCallback", (), {})
from ddprun import vault
assert "transformers" not in sys.modules
sys.modules["transformers"] = transformers
callback = vault.MarkCheckpoints()
assert isinstance(callback, transformers.TrainerCallback)
out = sys.argv[1]
os.makedirs(out + "/checkpoint-5")
open(out + "/checkpoint-5/model.safetensors", "w").close()
arguments = types.SimpleNamespace(output_dir=out)
for is_first in (False, True):
    state = types.SimpleNamespace(global_step=5, is_local_process_zero=is_first)
    callback.on_save(arguments, state, None, model=None)
    print(vault.newest())
"""


def test_a_callback_marks_what_a_trainer_has_saved(vault, place):
    needs("torch", "PyTorch is not installed here")
    out = place / "out"
    done = subprocess.run([sys.executable, "-c", CALLBACK, out], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["None", str(out / "checkpoint-5")]


def test_a_callback_leaves_what_is_not_in_the_vault(vault, place, tmp_path):
    needs("torch", "PyTorch is not installed here")
    done = subprocess.run([sys.executable, "-c", CALLBACK, tmp_path / "vault-of-another"],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["None", "None"]
    assert not [*tmp_path.rglob(".complete")]


def test_a_callback_waits_for_the_others_on_every_node(vault, place, tmp_path):
    """This holds even if there is nothing to mark, as on a node without a vault."""
    needs("torch", "PyTorch is not installed here")
    waits = ("import torch.distributed as dist\n"
             "dist.is_initialized = lambda: True\n"
             "dist.barrier = lambda: print('waits')\n")
    done = subprocess.run([sys.executable, "-c", waits + CALLBACK, tmp_path / "elsewhere"],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["waits", "None"] * 2


def test_only_what_is_there_is_an_attribute(vault):
    assert isinstance(vault, types.ModuleType)
    with pytest.raises(AttributeError, match="has no attribute 'MarkCheckpoint'"):
        vault.MarkCheckpoint  # noqa: B018
