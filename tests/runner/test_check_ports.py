"""tests/support/check_ports.py: which ports another process may have by the time they are used."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[1] / "support/check_ports.py"
GIVEN_BACK = {
    "used behind its socket": """
def test():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start(port)
""",
    "returned": """
def test():
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]
""",
    "closed before it is used": """
def test():
    free = socket.create_server(("", 0))
    _, port = free.getsockname()
    free.close()
    start(port)
""",
    "in a function within": """
def test():
    def port():
        with socket.create_server(("", 0)) as free:
            return free.getsockname()[1]
    start(port())
"""}
KEPT = {
    "used while it is open": """
def test():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        start(port)
""",
    "closed behind its use": """
def test():
    server = socket.create_server(("127.0.0.1", 0))
    start(server.getsockname()[1])
    server.close()
""",
    "never closed": """
class Server:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
""",
    "not the kernel's": """
def test():
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
    start(port)
"""}


def found(tree, text):
    (tree / "tests").mkdir()
    (tree / "tests/test_it.py").write_text(text)
    (tree / "tests/no_python.py").write_text("def step()\n")
    run = subprocess.run([sys.executable, CHECK, tree], text=True, check=False,
                         stdout=subprocess.PIPE)
    *lines, _ = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0)
    return lines


@pytest.mark.parametrize("how", GIVEN_BACK)
def test_a_port_that_is_given_back_is_named(tmp_path, how):
    text = GIVEN_BACK[how]
    number = next(number for number, line in enumerate(text.splitlines(), 1)
                  if "getsockname" in line)
    assert found(tmp_path, text) == [
        f"tests/test_it.py:{number}: a port that was given back may be somebody else's: take "
        "free_port() of tests/support/ports.py"]


@pytest.mark.parametrize("how", KEPT)
def test_a_port_that_is_kept_is_let_be(tmp_path, how):
    assert not found(tmp_path, KEPT[how])
