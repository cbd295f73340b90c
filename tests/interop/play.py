"""A play is what several clients do on one store at the same time, drawn from one seed.

Replies are determined although the clients race. Each scene mixes short threads of steps: work on a
client's own keys, hand-overs (one sets, others wait), a queue with one producer and one consumer,
and races of which only the set of all replies is determined: counters, an election and a lock by
COMPARE_SET, deletes, appends, a drained queue. Every client takes its steps in the order in which
they were drawn, so that none waits for a step that comes after its own wait. Between scenes all
meet at a barrier made of ADD, SET and WAIT, and then read what the races have left behind.
"""

import random
from collections import namedtuple

import torch_versions
from operations import BRIEFLY, VALUES, WHOLE_STORE, Draw
from store_client import PATIENCE

# What client `who` does. If `group` is set, the replies to all steps of the group are compared as
# one sorted list, because it is not determined which client gets which.
Step = namedtuple("Step", "who action arguments group")


class Scene:
    """Threads of steps that are merged at random."""

    def __init__(self, source, number, clients):
        self.random = source
        self.number = number
        self.clients = clients
        self.threads = []
        self.after = []  # steps for when all have met again

    def name(self, word):
        return f"shared/{self.number}/{word}{len(self.threads)}"

    def some(self, at_least=2):
        return self.random.sample(range(self.clients), self.random.randint(at_least, self.clients))

    def all_do(self, action, *arguments, group=None):
        return [Step(who, action, arguments, group) for who in range(self.clients)]

    def steps(self):
        threads = [list(reversed(thread)) for thread in self.threads]
        while threads:
            thread = self.random.choice(threads)
            yield thread.pop()
            threads = [thread for thread in threads if thread]

    def own_work(self, who, draw, count):
        views = [self.random.randrange(4) for _ in range(count)]
        steps = [Step(who, "own", (view, *draw.operation()), None) for view in views]
        steps.insert(self.random.randrange(count), Step(who, "visit", (), None))
        self.threads.append(steps)

    def hand_over(self):
        key, value = self.name("hand"), self.random.choice(VALUES)
        giver, *takers = self.some()
        how = self.random.choice(["set", "add", "append", "compare_set", "multi_set"])
        given = {"add": (key, 5), "compare_set": (key, "", value), "multi_set": ([key], [value])}
        steps = [Step(giver, "call", (how, *given.get(how, (key, value))), None)]
        for taker in takers:
            wanted = self.random.choice([("get", key), ("wait", [key]), ("multi_get", [key, key])])
            steps.append(Step(taker, "call", wanted, None))
        self.threads.append(steps)

    def meeting(self):
        """Several clients set a key each; some wait for all of them."""
        base, givers = self.name("meet"), self.some()
        keys = [f"{base}/{who}" for who in givers]
        steps = [Step(who, "call", ("set", f"{base}/{who}", str(who)), None) for who in givers]
        for taker in self.some(1):
            wanted = self.random.sample(keys, len(keys)) + [self.random.choice(keys)]
            steps.append(Step(taker, "call", ("multi_get", wanted), None))
        self.threads.append(steps)

    def pipeline(self):
        queue = self.name("pipe")
        producer, consumer = self.some()[:2]
        items = [f"{index}{self.random.choice(VALUES)}" for index in range(6)]
        steps = []
        for item in items:
            steps.append(Step(producer, "call", ("queue_push", queue, item), None))
            steps.append(Step(consumer, "consume", (queue,), None))
        self.threads.append(steps)
        self.after += self.all_do("call", "queue_len", queue)

    def given_up(self):
        """Waits that time out now, for a key that is set between the scenes."""
        key = self.name("late")
        self.threads.append([
            Step(who, "call", ("wait", [key], BRIEFLY), None) for who in self.some()
        ])
        self.after += [Step(who, "call", ("set", key, "now"), None) for who in self.some(1)]
        self.after += self.all_do("call", "get", key)

    def quitter(self):
        """A connection is cut in the middle of a wait; the key comes later."""
        key = self.name("quit")
        who = self.random.randrange(self.clients)
        self.threads.append([Step(who, "quit_waiting", (key,), None)])
        self.after += self.all_do("call", "add", key, 0)

    def counter(self):
        key, delta = self.name("count"), self.random.choice([1, -3, 1 << 40])
        group = f"{self.number}: counter"
        for who in self.some() * self.random.randint(1, 4):
            self.threads.append([Step(who, "call", ("add", key, delta), group)])
        self.after += self.all_do("call", "get", key)

    def election(self):
        key = self.name("elect")
        self.threads += [[step] for step in self.all_do("elect", key, group=f"{key}: wins")]

    def lock(self):
        key, voters = self.name("lock"), self.some()
        self.threads += [[Step(who, "increase", (key, 3), None)] for who in voters]
        self.after += self.all_do("call", "get", key)

    def deletes(self):
        key = self.name("delete")
        maker, *others = self.some()
        made = Step(maker, "call", ("set", key, "x"), None)
        ready = self.name("ready")
        self.threads.append([made, Step(maker, "call", ("add", ready, 1), None)] + [
            step for who in [maker, *others] for step in (
                Step(who, "call", ("wait", [ready]), None),
                Step(who, "call", ("delete_key", key), f"{key}: deleted"))
        ])
        self.after += self.all_do("call", "check", [key])

    def appends(self):
        key = self.name("append")
        for who in self.some():
            self.threads.append([
                Step(who, "call", ("append", key, f"{who}.{index} "), None) for index in range(4)
            ])
        self.after += self.all_do("words", key)

    def barrier(self):
        """Comes when the others have ended their threads, because a client waits here for later
        steps."""
        key = self.name("barrier")
        self.after += self.all_do("call", "barrier", key, self.clients, PATIENCE)
        self.after += self.all_do("call", "get", key)

    def drain(self):
        """Many take from a queue that is full when they begin, and each item goes to one of
        them."""
        queue = self.name("drain")
        maker = self.random.randrange(self.clients)
        self.threads.append([
            Step(maker, "call", ("queue_push", queue, str(index)), None) for index in range(8)
        ])
        self.after += self.all_do("drain", queue, group=f"{queue}: items")


RACES = ("hand_over", "meeting", "pipeline", "given_up", "quitter", "counter", "election", "lock",
         "deletes", "appends", "drain")  # fmt: skip
if torch_versions.has("barrier"):
    RACES += ("barrier",)


def draw_play(seed, clients, operations):
    """All steps of all clients, in one order; at least `operations` of each are on its own keys."""
    source = random.Random(seed)
    draws = [Draw(f"{seed}/{who}", without=WHOLE_STORE) for who in range(clients)]
    steps, meetings, number, each = [], 0, 0, 12
    while number * each < operations:
        scene = Scene(source, number, clients)
        for who in range(clients):
            scene.own_work(who, draws[who], each)
        for race in source.sample(RACES, 6):
            getattr(scene, race)()
        # A meeting creates no key before the last client has come, so that all count the same keys.
        for part in (scene.steps(), scene.after, scene.all_do("census")):
            steps += part
            steps += scene.all_do("meet", meetings, clients, group=f"meeting {meetings}")
            meetings += 1
        number += 1
    return steps
