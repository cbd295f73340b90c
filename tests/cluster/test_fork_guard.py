"""Between fork and exec a child uses no heap: see tests/support/fork_guard.cpp. A child that did
would hang under some allocators, and its agent would wait for it for ever."""

import pytest

from tests.support.cluster import BIN, is_built_with

pytestmark = pytest.mark.skipif(
    is_built_with("address", "thread"),
    reason="the sanitizers have a heap of their own, and must come first")

GUARD = BIN.parent / "lib" / "fork_guard.so"


@pytest.mark.parametrize("program, code", [("/bin/true", 0), ("/bin/false", 1), ("broken", 1)])
def test_a_child_uses_no_heap_before_exec(cluster, program, code):
    if program == "broken":
        program = cluster.folder / program
        program.write_text("#!/no/such/interpreter\n")
        program.chmod(0o755)
    agent = cluster.agent("node", workers=4, environment={"LD_PRELOAD": str(GUARD)},
                          command=["--max-restarts", 1, "--no-python", program])
    assert agent.wait() == code, agent.err()
    assert "fork_guard: watching" in agent.err()
    assert "used the heap" not in agent.err()
