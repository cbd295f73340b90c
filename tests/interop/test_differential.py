"""The same operations on PyTorch's own server and on ours: every reply must be equal.

A seed decides the operations of several clients, which take turns; in test_concurrent.py they do
not. A failure prints `--seed=N --operations=M`, which repeats it.
"""

import torch.distributed as dist
from operations import WRITES, Draw, hurried
from store_client import connect, renew


def views_of(port):
    """Clients of one server: stores, a clone, a prefix; and the prefix of their keys."""
    stores = [connect(port) for _ in range(3)]
    views = [*stores, stores[0].clone(), dist.PrefixStore("p", connect(port))]
    return views, ["", "", "", "", "p/"]


def run(store, name, arguments):
    reply = hurried(store, name, arguments)
    # A write has no reply. It must have arrived before another client asks.
    return store.num_keys() if name in WRITES and reply is None else reply


def test_every_reply_is_the_same(both, seed, pytestconfig):
    operations = pytestconfig.getoption("--operations")
    for server in both:
        renew(server)
    (ours, prefixes), (theirs, _) = (views_of(server.port) for server in both)
    draw = Draw(seed)
    for index in range(operations):
        who = draw.random.randrange(len(ours))
        name, arguments = draw.operation(prefixes[who])
        got = run(ours[who], name, arguments)
        expected = run(theirs[who], name, arguments)
        assert got == expected, (
            f"operation {index}, client {who}: {name}{arguments}: "
            f"repeat with --seed={seed} --operations={operations}"
        )
