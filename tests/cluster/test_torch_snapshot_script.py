"""examples/01_snapshot_resume/train.py keeps the C++ program's promise in a class that people copy:
a snapshot that was reported as saved is found again, whatever was killed, and no late round
wins."""

import importlib.util
import os
import random
import signal

import pytest

from tests.support.cluster import ROOT

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
KILLS = 40


@pytest.fixture(scope="module")
def script():
    path = ROOT / "examples" / "01_snapshot_resume" / "train.py"
    spec = importlib.util.spec_from_file_location("train", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.set_num_threads(1)  # a forked child has no other
    return module


def state(step):
    return {"step": step, "weights": torch.full((20_000,), float(step))}


def newest_step(snapshots):
    found = snapshots.newest()
    if found is None:
        return 0
    assert torch.equal(found[1]["weights"], state(found[1]["step"])["weights"])
    return found[1]["step"]


def test_the_newest_three_are_kept(script, tmp_path):
    kept = script.Snapshots(tmp_path)
    assert kept.newest() is None
    for step in (10, 20, 30, 40):
        kept.save(step, state(step))
    assert [step for _, step, _, _ in kept.all()] == [20, 30, 40]
    assert newest_step(script.Snapshots(tmp_path)) == 40


def test_a_round_that_is_over_may_not_save_and_never_wins(script, tmp_path):
    old = script.Snapshots(tmp_path)
    old.save(40, state(40))
    new = script.Snapshots(tmp_path)
    assert new.generation > old.generation
    with pytest.raises(RuntimeError, match="a newer round has taken it over; this one is over"):
        old.save(50, state(50))
    new.save(45, state(45))
    # It had checked just before the new one came.
    old.newest_generation = lambda: old.generation
    old.save(60, state(60))
    assert newest_step(script.Snapshots(tmp_path)) == 45


def test_two_that_open_at_once_have_two_generations(script, tmp_path, monkeypatch):
    first = script.Snapshots(tmp_path)
    looked = []
    look = script.Snapshots.newest_generation

    def look_too_early(self):
        looked.append(self)
        return 0 if len(looked) == 1 else look(self)  # as if the first one did not exist yet

    monkeypatch.setattr(script.Snapshots, "newest_generation", look_too_early)
    assert script.Snapshots(tmp_path).generation == first.generation + 1


def test_damage_is_known_and_the_one_before_is_taken(script, tmp_path, capsys):
    kept = script.Snapshots(tmp_path)
    kept.save(10, state(10))
    for change in (lambda data: data[:-1], lambda data: data[:999] + b"?" + data[1000:],
                   lambda data: b""):
        newest = kept.save(20, state(20))
        with open(newest, "r+b") as file:
            data = change(file.read())
            file.seek(0)
            file.truncate()
            file.write(data)
        kept = script.Snapshots(tmp_path)
        assert newest_step(kept) == 10
        assert f"{newest} skipped: its bytes do not match" in capsys.readouterr().out
    os.unlink(kept.all()[0][2])
    with pytest.raises(SystemExit, match="move the damaged ones away"):
        kept.newest()


def save_for_ever(script, folder, report):
    """Runs in a process of its own."""
    try:
        kept = script.Snapshots(folder)
        step = newest_step(kept)
        while True:
            step += 1
            kept.save(step, state(step))
            os.write(report, step.to_bytes(8, "little"))
    finally:
        os._exit(1)


def test_kills_in_the_middle_of_a_save(script, tmp_path):
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    reported = 0
    for kill in range(KILLS):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            save_for_ever(script, tmp_path, write)
        os.close(write)
        for _ in range(1 + chance.randrange(2)):
            said = os.read(read, 8)
            assert len(said) == 8, f"seed {seed}, kill {kill}: it has ended by itself"
            reported = int.from_bytes(said, "little")
        for _ in range(chance.randrange(100_000)):  # into the next save
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while said := os.read(read, 8):
            reported = int.from_bytes(said, "little")
        os.close(read)
        found = newest_step(script.Snapshots(tmp_path))
        assert reported <= found <= reported + 1, f"seed {seed}, kill {kill}"
    # Nothing accumulates. The last kill may have come before the oldest snapshot was removed, which
    # the next save does.
    last = script.Snapshots(tmp_path)
    last.save(found + 1, state(found + 1))
    assert len(os.listdir(tmp_path)) == script.Snapshots.KEEP + 1, "and a claim"


def test_what_cannot_be_written_is_one_line_and_leaves_nothing(script, tmp_path, monkeypatch):
    kept = script.Snapshots(tmp_path)
    kept.save(10, state(10))
    job = script.Job.__new__(script.Job)
    job.step, job.snapshots, job.unsaved = 20, kept, None
    job.network = job.optimizer = torch.nn.Linear(1, 1)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(script.os, "fsync", full)
        job.save(3, 0)
    assert job.unsaved == f"cannot save a snapshot in {tmp_path}: No space left on device"
    assert sorted(name[:8] for name in os.listdir(tmp_path)) == ["claim-00", "snapshot"]
    job.save(3, 0)
    assert job.unsaved is None
    assert kept.newest()[1]["step"] == 20

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(script.os, "open", refuse)
    with pytest.raises(SystemExit, match=f"^train.py: cannot use the snapshot folder {tmp_path}: "
                                         "Permission denied$"):
        script.open_snapshots(tmp_path)
