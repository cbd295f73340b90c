"""With a sanitizer, each program and each part of it goes through its main path once in every run,
by a test that is marked `main_path`. A new one fails here until it has such a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A program, or a folder of launcher/ that is a part of its own, and a file with such a test of it.
TESTED_BY = {
    "ddprun": "test_round.py",
    "ddprun-rendezvous": "test_http.py",
    "ddprun-nccl-id": "test_nccl_ids.py",
    "launcher/evidence": "test_evidence.py",
    "launcher/hosts/doctor": "test_doctor_cluster.py",
    "launcher/hosts/kubernetes": "test_kubernetes.py",
    "launcher/hosts/mpi": "test_mpi.py",
    "launcher/hosts/slurm": "test_slurm.py",
    "launcher/hosts/ssh": "test_ssh.py",
    "launcher/survivors": "test_survivors.py",
    "launcher/vault": "test_vault.py",
    "launcher/warm": "test_warm.py",
}


def test_each_program_and_each_engine_has_one():
    programs = {name for file in ("launcher", "rendezvous")
                for name in re.findall(r"^\s*add_executable\((\S+) ",
                                       (ROOT / file / "CMakeLists.txt").read_text(), re.M)}
    engines = {folder.relative_to(ROOT).as_posix() for folder in ROOT.glob("launcher/hosts/*/")
               if folder.is_dir()}
    assert programs > {"ddprun"} and len(engines) > 4
    assert programs | engines <= TESTED_BY.keys()


@pytest.mark.parametrize("what", TESTED_BY)
def test_the_file_has_a_marked_test(what):
    assert "/" not in what or (ROOT / what).is_dir()
    text = (ROOT / "tests/cluster" / TESTED_BY[what]).read_text()
    marked = r"@pytest\.mark\.main_path\n(@.*\n| .*\n)*def test_|pytestmark = .*main_path"
    assert re.search(rf"^({marked})", text, re.M)
