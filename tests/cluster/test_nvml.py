"""What ddprun reads of NVIDIA's management library, with a stand-in for that."""

import os
import subprocess

from tests.support.cluster import BIN


def answer(gpus, folder=BIN.parent / "lib/fake_nvml"):
    done = subprocess.run([BIN / "ddprun", "--ddprun-asks-nvml"], capture_output=True,
                          text=True, check=True,
                          env={**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": gpus})
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_each_gpu_is_told_of():
    assert answer("0 old lost 4 reset rows 9") == [
        "recovery 0, None", "errors 0, No, [N/A]", "remapped 00000000:07:00.0, No, No",
        "recovery 1, [N/A]", "errors 1, Yes, 2",
        "recovery 2, Reset or Reboot (it is lost)",
        "recovery 3, Drain and Reset", "errors 3, No, [N/A]", "remapped 00000003:07:00.0, No, No",
        "recovery 4, Reset",
        "recovery 5, None", "errors 5, No, [N/A]", "remapped 00000005:07:00.0, No, Yes",
        "recovery 6, action 9", "errors 6, No, [N/A]", "remapped 00000006:07:00.0, No, No"]


def test_a_library_that_does_not_begin_says_nothing():
    assert answer("broken") == []


def test_without_the_library_nothing_is_said(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    assert answer("2", tmp_path) == []
