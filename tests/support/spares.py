"""Waits for the spares of an agent."""

import re
from contextlib import suppress
from pathlib import Path

from tests.support.cluster import wait_for


def spares_wait(agent, count):
    """Those that have torch, whatever else has been imported ahead by now."""
    said = re.compile(rf"warm: \d{{4,}} modules are imported ahead(.*\n)+?.*{count} spare workers? "
                      "waits?")

    def look():
        # A zygote gives way to all others, and on a busy machine a test would wait for minutes.
        for pid in Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split():
            with suppress(OSError):
                Path(f"/proc/{pid}/autogroup").write_text("0", encoding="ascii")
        return said.search(agent.err())

    wait_for(f"{count} spares", look)
