"""`ddprun doctor --shared FOLDER`: whether it is the same folder on all nodes, and whether it
answers."""

from tests.support import machines
from tests.support.doctors import of_all


def test_a_shared_folder(doctors, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    group = doctors(2)
    # Given on one node only, it is examined by both.
    group.start(0, "--json", "--shared", folder)
    group.start(1, "--json")
    for each in group.answers():
        said = of_all(each, "shared folder")
        assert len(said) == 1 and said[0]["state"] == "ok", said
        assert " is one folder: new files are seen after " in said[0]["seen"]
    assert not list(folder.iterdir())


def test_a_folder_that_is_not_shared(doctors, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    group = doctors(2)
    group.start(0, "--json", "--shared", folder)
    group.start(1, "--json", "--shared", folder, prefix=machines.with_folder(folder))
    for each in group.answers():
        wrong = of_all(each, "shared folder", "error")
        assert "saw none of the others' files" in wrong[0]["seen"]
    assert not list(folder.iterdir())


def test_a_folder_whose_file_server_hangs_on_one(doctors, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    group = doctors(2)
    group.start(0, "--json", "--shared", folder)
    group.start(1, "--json", prefix=machines.with_silent_folder(folder))
    for each in group.answers():
        wrong = of_all(each, "shared folder", "error")
        assert wrong[0]["seen"] == f"{folder}: no answer from its file system in 15 s on node-1"
        assert of_all(each, "connections")[0]["seen"].startswith("2 of 2 pairs ")


def test_a_folder_that_one_lacks(doctors, tmp_path):
    folder = tmp_path / "data" / "set"
    folder.mkdir(parents=True)
    group = doctors(2)
    group.start(0, "--json", "--shared", folder)
    group.start(1, "--json", prefix=machines.with_folder(folder.parent))
    for each in group.answers():
        wrong = of_all(each, "shared folder", "error")
        assert wrong[0]["seen"] == f"{folder}: No such file or directory on node-1"
