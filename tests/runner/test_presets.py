"""CMakePresets.json has what tests/run builds, for those who call CMake and CTest themselves."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import builds

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="presets")
def presets_of_the_tree():
    return json.loads((ROOT / "CMakePresets.json").read_text())


def test_each_build_has_its_presets_in_the_folder_of_tests_run(presets):
    configured = {preset["name"]: preset for preset in presets["configurePresets"]}
    for build, name in builds.PRESETS.items():
        folder = configured[name].get("binaryDir") or configured["sanitized"]["binaryDir"]
        assert folder.replace("${presetName}", name) == "${sourceDir}/" + build
    for kind in ("buildPresets", "testPresets"):
        assert {preset["name"]: preset["configurePreset"] for preset in presets[kind]} == {
            name: name for name in builds.PRESETS.values()}


@pytest.mark.parametrize("program", ["cmake", "ctest"])
def test_cmake_and_ctest_can_read_them(program):
    done = subprocess.run([program, "--list-presets"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in builds.PRESETS.values():
        assert f'"{name}"' in done.stdout


@pytest.mark.parametrize("build", builds.PRESETS)
def test_tests_run_configures_with_the_preset(tmp_path, monkeypatch, build):
    monkeypatch.chdir(tmp_path)
    ran = []

    def run(command, *_, **__):
        ran.append(command)
        return 1

    Path(build, "test-logs").mkdir(parents=True)
    Path(build, "test-logs/configure.log").touch()
    assert not builds.make(build, SimpleNamespace(run=run), SimpleNamespace(say=lambda _: None))
    assert ran == [["cmake", "-S", ".", "-B", build, "--preset", builds.PRESETS[build]]]
