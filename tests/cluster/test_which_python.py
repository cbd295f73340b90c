"""Which Python runs a script: the one that `python` means in the shell that starts ddprun."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, LIMIT

REAL = str(Path(sys.executable).resolve())


@pytest.fixture
def folders(tmp_path):
    """Environments as their tools make them, each with a Python that prints which one it is."""
    for name, programs in (("venv", ("python", "python3")), ("conda", ("python", "python3")),
                           ("module", ("python3",)), ("own", ("python",)),
                           ("shims", ("python", "python3"))):
        folder = tmp_path / name / "bin"
        folder.mkdir(parents=True)
        for program in programs:
            (folder / program).write_text(f'#!/bin/sh\nPYTHON_OF={name} exec {REAL} "$@"\n')
            (folder / program).chmod(0o755)
    return tmp_path


ACTIVE = {
    # The folders of PATH in order, and what else the tools set.
    "a venv": (["venv"], {"VIRTUAL_ENV": "venv"}, "venv"),
    "conda": (["conda"], {"CONDA_PREFIX": "conda"}, "conda"),
    "conda within a venv": (["conda", "venv"],
                            {"VIRTUAL_ENV": "venv", "CONDA_PREFIX": "conda"}, "conda"),
    "a venv within conda": (["venv", "conda"],
                            {"VIRTUAL_ENV": "venv", "CONDA_PREFIX": "conda"}, "venv"),
    "pyenv": (["shims", "conda"], {"PYENV_VERSION": "3.12"}, "shims"),
    "a module": (["module"], {"LOADEDMODULES": "python/3.12"}, "module"),
    "a person's own": (["own", "module"], {}, "own"),
    # It was started by a unit file or by sudo, so no shell has put it into PATH.
    "a venv that PATH does not have": ([], {"VIRTUAL_ENV": "venv"}, "venv"),
    "PYTHON_EXEC": (["venv"], {"VIRTUAL_ENV": "venv", "PYTHON_EXEC": "conda/bin/python"}, "conda"),
}


@pytest.mark.parametrize("what", ACTIVE)
def test_python_is_that_of_the_shell(folders, what):
    path, more, expected = ACTIVE[what]
    script = folders / "which.py"
    script.write_text("import os; print(os.environ.get('PYTHON_OF'))")
    variables = {name: str(folders / value) if (folders / value).exists() else value
                 for name, value in more.items()}
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHON_EXEC")}
    environment.update(variables)
    environment["PATH"] = ":".join([*(str(folders / each / "bin") for each in path),
                                    "/usr/bin", "/bin"])
    done = subprocess.run([BIN / "ddprun", "--standalone", script], env=environment, text=True,
                          capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stdout) == (0, expected + "\n"), done
    if path:  # what is expected
        ask = "$(command -v python || command -v python3) which.py"
        shell = subprocess.run(["bash", "-c", ask], env=environment, cwd=folders, text=True,
                               capture_output=True, timeout=LIMIT, check=True)
        assert "PYTHON_EXEC" in more or shell.stdout == done.stdout
