"""Several clients at the same time, on PyTorch's own server and on ours: every reply must be equal.

A seed decides a play (play.py). A failure prints how to repeat it. A long run:

  .venv/bin/python -m pytest tests/interop -k every_reply --rounds 1000 --operations 600
"""

import collections

import player
from play import draw_play
from store_client import renew


def judged(steps, replies):
    """(operation, reply) of each step; for the steps of a group all replies together, sorted."""
    groups = collections.defaultdict(list)
    seen = []
    for step, reply in zip(steps, replies):
        if step.group is None:
            seen.append((f"client {step.who}: {step.action}{step.arguments}", reply))
        else:
            groups[step.group] += reply if isinstance(reply, list) else [reply]
    return seen + [(group, sorted(replies, key=repr)) for group, replies in groups.items()]


def test_every_reply_is_the_same(both, seed, pytestconfig):
    operations, clients = map(pytestconfig.getoption, ("--operations", "--clients"))
    steps = draw_play(seed, clients, operations)
    outcomes = []
    for server in both:
        renew(server)
        outcomes.append(judged(steps, player.play(server.port, steps, clients, limit=120)))
    for index, (got, expected) in enumerate(zip(*outcomes)):
        assert got == expected, (
            f"step {index}: repeat with --seed={seed} --operations={operations} --clients={clients}"
        )
    assert all(reply != "did not end" for _, reply in outcomes[0])
