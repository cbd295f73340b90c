"""Ports that another program uses when ddprun wants them.

ddprun tries for 3 s, and this process may have to wait longer than that for its turn. An action on
an agent was in time if no more than 3 s have passed since before the agent's start. An action that
was too late, on an agent that has given up, is repeated with another agent.
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
    # A connection of an earlier test may linger on this port, which does no harm here.
    with socket.create_server(("0.0.0.0", free_port())) as other:
        yield other.getsockname()[1]


def has_given_up(agent):
    wait_for(f"{agent.name} to give up or to go on", lambda: not agent.running()
             or re.search("round 1 starts|waiting for", agent.err()))
    return agent.process.poll() == 1


def at_a_busy_port(start, act=lambda agent: None):
    """Returns the agent that `start(port)` has started, and its port. The agent has found the port
    busy, `act(agent)` was called meanwhile, and the port is free now."""
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
