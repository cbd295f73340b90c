"""Ports that somebody else has when ddprun wants them.

ddprun tries for 3 s, and this process may have to wait for its turn for longer. What was done to an
agent while it tried was done in time if no more than that has passed since before its start, by the
clock. What may have come too late, to an agent that has given up, says nothing: it is done again.
"""

import contextlib
import re
import socket
import time

from tests.support.cluster import wait_for
from tests.support.ports import free_port

TRIED_SECONDS = 3
TIMES = 20


@contextlib.contextmanager
def busy_port():
    # A connection that an earlier test has closed may linger on this port: that does no harm here.
    with socket.create_server(("0.0.0.0", free_port())) as other:
        yield other.getsockname()[1]


def has_given_up(agent):
    wait_for(f"{agent.name} to give up or to go on", lambda: not agent.running()
             or re.search("round 1 starts|waiting for", agent.err()))
    return agent.process.poll() == 1


def at_a_busy_port(start, act=lambda agent: None):
    """The agent that `start(port)` has started, and its port, which it has tried in vain: then
    `act(agent)` was done, and the port is free."""
    for _ in range(TIMES):
        began = time.monotonic()
        with busy_port() as port:
            agent = start(port)
            agent.says(f"Address already in use; trying for {TRIED_SECONDS} s")
            act(agent)
        was_in_time = time.monotonic() - began < TRIED_SECONDS
        if was_in_time or not has_given_up(agent):
            return agent, port
    raise AssertionError(f"this machine was too late {TIMES} times")
