"""The same operations on PyTorch's own server and on ours: every reply must be equal.

A seed decides the operations of several clients, which take turns. A failure prints
`--seed=N --operations=M`, which repeats it. Left out are the quirks of the reference that ours does
not share, each named where the operations are drawn.
"""

import random
from datetime import timedelta

import torch.distributed as dist
from store_client import connect, our_store, pytorch_store

WAIT = timedelta(milliseconds=10)
KEYS = [f"k{index}" for index in range(8)] + ["", "a/b", "\u00e4"]
QUEUES = ["q0", "q1"]
VALUES = ["", "0", "1", "-5", "12abc", " 7", "x", "value" * 300, "y" * 5000]


class View:
    """One client in two worlds: the store itself, a prefix of it, or a clone."""

    def __init__(self, store):
        self.store = store

    def run(self, name, arguments):
        try:
            result = getattr(self.store, name)(*arguments)
        except dist.QueueEmptyError as error:
            return "QueueEmptyError", str(error).split("\n")[0]
        except dist.DistStoreError as error:
            return "DistStoreError", str(error).split("\n")[0]
        # A write has no reply. It must have arrived before another client asks.
        if name in ("set", "append", "multi_set", "queue_push"):
            return self.store.num_keys()
        if isinstance(result, list):
            return sorted(result) if name == "list_keys" else result
        return result


def numeric(value):
    text = value.strip()
    return text[:1].isdigit() or (text[:1] in "+-" and text[1:2].isdigit())


class Draw:
    """Draws operations, and knows enough of the store to leave the quirks out."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.text = set()  # keys (of any view) whose value ADD might not read as a number

    def operation(self, prefix):
        pick = self.random.choice
        name = self.random.choices(
            ["set", "get", "add", "compare_set", "append", "check", "wait", "multi_get",
             "multi_set", "delete_key", "num_keys", "list_keys", "queue_push", "queue_pop",
             "queue_len"],
            [6, 4, 4, 6, 3, 4, 2, 2, 2, 4, 2, 1, 3, 3, 2],
        )[0]  # fmt: skip
        key, value = pick(KEYS), pick(VALUES)
        full = prefix + key
        if name == "set":
            self.note(full, value)
            return name, (key, value)
        if name == "add":
            # ADD to text that is no number closes the connection in both: a test of its own.
            if full in self.text:
                return "check", ([key],)
            return name, (key, self.random.randint(-9, 9))
        if name == "compare_set":
            # What is stored is known only to the server.
            self.text.add(full)
            return name, (key, pick(VALUES), value)
        if name == "append":
            self.text.add(full)
            return name, (key, value)
        if name in ("check", "wait"):
            keys = [pick(KEYS + QUEUES) for _ in range(self.random.randint(1, 4))]
            return name, ((keys, WAIT) if name == "wait" else (keys,))
        if name == "multi_get":
            return name, ([pick(KEYS) for _ in range(self.random.randint(1, 4))],)
        if name == "multi_set":
            keys = [pick(KEYS) for _ in range(self.random.randint(1, 4))]
            values = [pick(VALUES) for _ in keys]
            for each, its in zip(keys, values):
                self.note(prefix + each, its)
            return name, (keys, values)
        if name in ("num_keys", "list_keys"):
            return name, ()
        if name == "delete_key":
            self.text.discard(full)
            return name, (key,)
        queue = pick(QUEUES)
        if name == "queue_push":
            return name, (queue, value)
        return name, ((queue, False) if name == "queue_pop" else (queue,))

    def note(self, full, value):
        (self.text.discard if numeric(value) else self.text.add)(full)


def views_of(port):
    timeout = timedelta(milliseconds=20)  # of a get of a missing key
    stores = [connect(port) for _ in range(3)]
    for store in stores:
        store.set_timeout(timeout)
    prefixed = dist.PrefixStore("p", connect(port))
    prefixed.set_timeout(timeout)
    clone = stores[0].clone()
    clone.set_timeout(timeout)
    return [*map(View, stores), View(clone), View(prefixed)], ["", "", "", "", "p/"]


def runs(config):
    seed = config.getoption("--seed")
    return [seed] if seed is not None else range(1, config.getoption("--rounds") + 1)


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", runs(metafunc.config))


def test_every_reply_is_the_same(seed, pytestconfig):
    operations = pytestconfig.getoption("--operations")
    with our_store() as ours, pytorch_store() as theirs:
        our_views, prefixes = views_of(ours.port)
        their_views, _ = views_of(theirs.port)
        draw = Draw(seed)
        for index in range(operations):
            who = draw.random.randrange(len(our_views))
            name, arguments = draw.operation(prefixes[who])
            # PrefixStore has no list_keys and no queues in some versions: ask the plain clients.
            if prefixes[who] and (name == "list_keys" or name.startswith("queue")):
                who = 0
            got = our_views[who].run(name, arguments)
            expected = their_views[who].run(name, arguments)
            assert got == expected, (
                f"operation {index}, client {who}: {name}{arguments}: "
                f"repeat with --seed={seed} --operations={operations}"
            )
