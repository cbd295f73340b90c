"""Random operations on a store, and their replies in a form in which two servers can be compared.

Quirks of the reference that ours does not share are left out; each is named where it is avoided.
"""

import random
from datetime import timedelta

import torch.distributed as dist
import torch_versions
from store_client import PATIENCE

BRIEFLY = timedelta(milliseconds=15)  # for keys that do not come
KEYS = [f"k{index}" for index in range(8)] + ["", "a/b", "\u00e4"]
QUEUES = ["q0", "q1"]
VALUES = ["", "0", "1", "-5", "12abc", " 7", "x", "value" * 300, "y" * 5000]
WEIGHTS = {
    "set": 6, "get": 4, "add": 4, "compare_set": 6, "append": 3, "check": 4, "wait": 2,
    "multi_get": 2, "multi_set": 2, "delete_key": 4, "num_keys": 2, "list_keys": 1,
    "queue_push": 3, "queue_pop": 3, "queue_len": 2,
}  # fmt: skip
if torch_versions.has("barrier"):
    WEIGHTS["barrier"] = 3
NEVER = 1 << 50  # so many clients never come to a barrier
WHOLE_STORE = ("num_keys", "list_keys")  # their replies depend on what other clients do
WRITES = ("set", "append", "multi_set", "queue_push")  # have no reply


def reply_of(store, name, arguments):
    """What the call returns or raises."""
    try:
        result = getattr(store, name)(*arguments)
    except dist.QueueEmptyError as error:
        return "QueueEmptyError", str(error).split("\n")[0]
    except dist.DistStoreError as error:
        return "DistStoreError", str(error).split("\n")[0]
    return sorted(result) if name == "list_keys" else result


def hurried(store, name, arguments):
    """The same for keys that no other client changes: waits only briefly for those that are
    missing."""
    if name not in ("get", "multi_get", "queue_pop", "wait"):
        return reply_of(store, name, arguments)
    keys, *rest = arguments
    # A slow server must not make an existing key look missing.
    there = store.check([keys] if isinstance(keys, str) else keys)
    limit = PATIENCE if there else BRIEFLY
    store.set_timeout(limit)
    return reply_of(store, name, (keys, *([limit] if name == "wait" else rest)))


def numeric(value):
    text = value.strip()
    return text[:1].isdigit() or (text[:1] in "+-" and text[1:2].isdigit())


class Draw:
    """Draws operations, and knows enough of the store to leave the quirks out."""

    def __init__(self, seed, without=()):
        self.random = random.Random(seed)
        self.weights = {name: weight for name, weight in WEIGHTS.items() if name not in without}
        self.text = set()  # keys (of any view) whose value ADD might not read as a number

    def operation(self, prefix=""):
        pick = self.random.choice
        name = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        key, value = pick(KEYS), pick(VALUES)
        full = prefix + key
        if name == "set":
            self.note(full, value)
            return name, (key, value)
        if name in ("add", "barrier"):
            # Adding to text that is not a number closes the connection in both, which has its own
            # test.
            if full in self.text:
                return "check", ([key],)
            if name == "barrier":
                return name, (key, NEVER, BRIEFLY)  # play.py has barriers that open
            return name, (key, self.random.randint(-9, 9))
        if name == "compare_set":
            # Only the server knows what is stored.
            self.text.add(full)
            return name, (key, pick(VALUES), value)
        if name == "append":
            self.text.add(full)
            return name, (key, value)
        if name in ("check", "wait"):
            keys = [pick(KEYS + QUEUES) for _ in range(self.random.randint(1, 4))]
            return name, (keys,)
        if name == "multi_get":
            return name, ([pick(KEYS) for _ in range(self.random.randint(1, 4))],)
        if name == "multi_set":
            keys = [pick(KEYS) for _ in range(self.random.randint(1, 4))]
            values = [pick(VALUES) for _ in keys]
            for each, its in zip(keys, values):
                self.note(prefix + each, its)
            return name, (keys, values)
        if name in WHOLE_STORE:
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
