"""Several ranks write a snapshot's state together, each of them a share
(support/snapshot_shares.cpp)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, ROOT
from tests.support.needs import needs

PROGRAM = BIN / "snapshot_shares"
TENSORS = 7


def run(cluster, name, workers, *arguments):
    agent = cluster.agent(name, workers=workers, command=["--no-python", PROGRAM, *arguments])
    assert agent.wait() == 0, agent.out() + agent.err()
    return sorted(re.findall(r"rank \d+: .*", agent.out()))


def save(cluster, folder, workers, writers):
    assert run(cluster, "save", workers, "save", folder, writers) == []
    return folder / "snapshot-000001-000010"


@pytest.mark.parametrize("word", ["resume", "hand-on"])
@pytest.mark.parametrize("workers", [4, 1, 3])
def test_shares_are_found_again_by_any_number_of_ranks(cluster, tmp_path, workers, word):
    snapshot = save(cluster, tmp_path / "s", 4, 4)
    assert json.loads((snapshot / "manifest.json").read_text())["replicated"] == [0, 1, 2, 3]
    sizes = [(snapshot / f"rank-0000{rank}.safetensors").stat().st_size for rank in range(4)]
    assert max(sizes) - min(sizes) < 300_000, sizes
    ending = "right, and its own" if workers == 4 else "right"
    assert run(cluster, "resume", workers, word, tmp_path / "s") == [
        f"rank {rank}: step 10, {ending}" for rank in range(workers)]


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("word", ["resume", "hand-on"])
@pytest.mark.parametrize("damage, why", [
    pytest.param(flip_a_byte, "its bytes do not match their checksum", id="flipped"),
    pytest.param(cut_short, "it has [0-9]+ bytes instead of [0-9]+", id="short"),
    pytest.param(Path.unlink, "No such file or directory", id="gone")])
def test_a_damaged_piece_costs_all_ranks_that_snapshot(cluster, tmp_path, damage, why, word):
    folder = tmp_path / "s"
    assert run(cluster, "save", 4, "save-pieces", folder, 0) == []
    older, newest = sorted(folder.glob("snapshot-*"))
    damage(newest / "rank-00002.safetensors")
    agent = cluster.agent("resume", workers=3, command=["--no-python", PROGRAM, word, folder])
    assert agent.wait() == 0, agent.out() + agent.err()
    assert sorted(re.findall(r"rank \d+: step.*", agent.out())) == [
        f"rank {rank}: step 10, right, and its region" for rank in range(3)]
    skipped = re.findall(f"snapshot {newest} skipped: .*", agent.out() + agent.err())
    line = rf"rank-00002.safetensors: {why}( \(and [0-9] more ranks\))?$"
    assert len(skipped) == 1 and re.search(line, skipped[0]), skipped
    # That folder notes which round has resumed from a snapshot.
    assert list(older.glob("resumed-*")) and not list(newest.glob("resumed-*"))


# This works even for root, because the link points to itself.
@pytest.mark.parametrize("word", ["resume", "hand-on"])
def test_a_piece_that_cannot_be_read_stops_all_ranks_with_one_line(cluster, tmp_path, word):
    folder = tmp_path / "s"
    assert run(cluster, "save", 4, "save-pieces", folder, 0) == []
    newest = max(folder.glob("snapshot-*"))
    piece = newest / "rank-00002.safetensors"
    piece.unlink()
    piece.symlink_to(piece.name)
    agent = cluster.agent("resume", workers=3, command=["--no-python", PROGRAM, word, folder])
    assert agent.wait() == 1
    said = agent.out() + agent.err()
    assert not re.search(r"rank \d+: step", said), said
    assert f"snapshot {newest} cannot be read: rank " in said
    assert not list(newest.glob("resumed-*"))


def test_one_rank_writes_a_small_state_unless_told_otherwise(cluster, tmp_path):
    snapshot = save(cluster, tmp_path / "s", 2, 0)
    assert sorted(path.name for path in snapshot.iterdir()) == [
        "manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"]
    assert "replicated" not in json.loads((snapshot / "manifest.json").read_text())


def test_the_index_opens_as_a_sharded_checkpoint_of_hugging_face(cluster, tmp_path):
    """It is opened as accelerate's load_checkpoint_in_model does: the folder's only *.index.json,
    the files that it names, and each of these only if its metadata name a format."""
    safetensors = pytest.importorskip("safetensors", reason="the package safetensors is missing")
    needs("torch", "PyTorch is not installed here")
    snapshot = save(cluster, tmp_path / "s", 4, 3)
    index, = snapshot.glob("*.index.json")
    content = json.loads(index.read_text())
    tensors = {}
    for name in sorted(set(content["weight_map"].values())):
        with safetensors.safe_open(snapshot / name, "pt") as file:
            assert file.metadata()["format"] == "pt"
            mine = {key for key, of in content["weight_map"].items() if of == name}
            assert mine <= set(file.keys())
            tensors |= {key: file.get_tensor(key) for key in mine}
    assert sorted(tensors) == [f"model.{number}" for number in range(TENSORS)]
    assert content["metadata"]["total_size"] == sum(each.nbytes for each in tensors.values())
    for number in range(TENSORS):
        length = 100_000 * (number + 1)
        expected = bytes((number * 31 + at) % 251 for at in range(length))
        assert tensors[f"model.{number}"].numpy().tobytes() == expected


def test_the_examples_script_finds_the_tensors_of_all_shares(cluster, tmp_path):
    for package in ("safetensors", "torch", "xxhash"):
        pytest.importorskip(package, reason=f"the package {package} is missing")
    snapshot = save(cluster, tmp_path / "s", 4, 3)
    script = ROOT / "examples" / "01_snapshot_resume" / "snapshot_files.py"
    code = f"import sys; sys.path.insert(0, {str(script.parent)!r}); import snapshot_files\n" \
           f"_, tensors, values = snapshot_files.read({str(snapshot)!r})\n" \
           "print(sorted(tensors), values)"
    said = subprocess.run([sys.executable, "-c", code], check=True, text=True, capture_output=True)
    names = [f"model.{number}" for number in range(TENSORS)]
    assert said.stdout == f"{names} {{'note': 'of all ranks'}}\n"


@pytest.mark.parametrize("generation", ["generation", "tenure"])
def test_the_examples_script_reads_an_emergency_snapshot(tmp_path, generation):
    """It has one file, from whichever rank was left, and the manifest says so (names.hpp). Up to
    version 2 a manifest calls the generation a tenure."""
    for package in ("safetensors", "torch", "xxhash"):
        pytest.importorskip(package, reason=f"the package {package} is missing")
    import safetensors.torch
    import torch
    import xxhash
    snapshot = tmp_path / "snapshot-000001-000010"
    snapshot.mkdir()
    weight = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    data = safetensors.torch.save(
        {"model.weight": weight, "optimizer.state.0.step": torch.tensor(10.0)},
        {"format": "pt", "optimizer.lr": "[0.5]", "samples_used": "640"})
    (snapshot / "survivors.safetensors").write_bytes(data)
    (snapshot / "manifest.json").write_text(json.dumps({
        "format": "ddprun snapshot", "version": 3 if generation == "generation" else 1,
        generation: 1, "step": 10, "epoch": 2, "instance": 77, "round": 1, "emergency": True,
        "files": [{"bytes": len(data), "xxh3": xxhash.xxh3_64_hexdigest(data)}], "xxh3": ""}))
    script = ROOT / "examples" / "01_snapshot_resume" / "snapshot_files.py"

    def call(*arguments):
        return subprocess.run([sys.executable, script, *arguments], text=True, capture_output=True)

    shown = call("show", snapshot)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("step 10, epoch 2, 1 ranks, generation 1\n")
    assert "survivors.safetensors:\n  model.weight F32 [2, 3]\n" in shown.stdout
    converted = call("to-torch", snapshot, tmp_path / "snapshot.pt")
    assert converted.returncode == 0, converted.stderr
    saved = torch.load(tmp_path / "snapshot.pt", weights_only=True)
    assert (saved["step"], saved["epoch"], saved["samples_used"]) == (10, 2, 640)
    assert torch.equal(saved["network"]["weight"], weight)
    # Damage is found, and the file is named.
    (snapshot / "survivors.safetensors").write_bytes(data[:-1])
    damaged = call("show", snapshot)
    assert damaged.returncode == 1 and "survivors.safetensors is damaged" in damaged.stderr


def test_a_reader_needs_no_right_to_write(cluster, tmp_path):
    folder = tmp_path / "s"
    save(cluster, folder, 4, 3)
    if subprocess.run(["mount", "--bind", "-o", "ro", folder, folder]).returncode != 0:
        pytest.skip("needs the right to mount a folder as read-only")
    try:
        assert subprocess.run(["touch", folder / "probe"], stderr=subprocess.DEVNULL).returncode
        before = sorted(folder.rglob("*"))
        said = subprocess.run([PROGRAM, "read", folder], check=True, text=True, capture_output=True)
        assert (said.stdout, said.stderr) == ("rank 0: step 10, right\n", "")
        assert sorted(folder.rglob("*")) == before
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
def test_a_state_of_64_gib_takes_no_memory_of_its_own(tmp_path):
    """One rank saves it: as large as a model of 16 billion parameters in float32, or of 5 billion
    with Adam."""
    said = subprocess.run([BIN / "sparse_snapshot", tmp_path / "s", "64"], text=True,
                          capture_output=True)
    assert said.returncode == 0, said.stderr
    memory, disk = map(int, re.fullmatch(
        r"64 GiB written and read; at most (\d+) MiB of memory, (\d+) MiB on the disk\n",
        said.stdout).groups())
    assert memory < 256 and disk < 256
