"""Plays a play (play.py) on one server: each client is a process, forked from this one.

They are not threads, because PyTorch's queue calls hold Python's lock while they wait.
"""

import multiprocessing
import time
import traceback

import torch.distributed as dist
import wire
from operations import WRITES, hurried, reply_of
from store_client import connect


class Client:
    """The connections of one client, and its share of the actions."""

    def __init__(self, port, who):
        self.port = port
        self.who = str(who)
        self.shared = connect(port)
        self.prefix = f"own/{who}/"
        own = connect(port)
        # The same keys seen in four ways: from own/0/ and through two kinds of prefix.
        clone = own.clone()
        prefixed = dist.PrefixStore(f"own/{who}", connect(port))
        nested = dist.PrefixStore(str(who), dist.PrefixStore("own", clone))
        self.consumers = {}
        self.views = [own, clone, prefixed, nested]

    def take(self, step):
        return getattr(self, step.action)(*step.arguments)

    def own(self, view, name, arguments):
        first, *rest = arguments
        if view < 2:
            first = self.placed(first)
        reply = hurried(self.views[view], name, (first, *rest))
        # A write has no reply. It must have arrived before another connection asks.
        return self.views[view].check([]) if name in WRITES and reply is None else reply

    def placed(self, keys):
        return self.prefix + keys if isinstance(keys, str) else [self.prefix + key for key in keys]

    def call(self, name, *arguments):
        return reply_of(self.shared, name, arguments)

    def consume(self, queue):
        # Each queue has a connection of its own: PyTorch's server still treats a client that a push
        # has woken as a waiter, and at the next push ends whatever wait the client is in by then.
        if queue not in self.consumers:
            self.consumers[queue] = connect(self.port)
        return reply_of(self.consumers[queue], "queue_pop", (queue,))

    def visit(self):
        return connect(self.port).add(self.prefix + "visits", 1)

    def quit_waiting(self, key):
        """Waits for a key, as PyTorch's client does, and cuts the connection."""
        with wire.connect(self.port, wire.VALIDATE + wire.PING) as quitter:
            pong = wire.hear(quitter, 4)
            quitter.sendall(wire.wait(b"/" + key.encode()))
        return pong

    def elect(self, key):
        winner = self.shared.compare_set(key, "", self.who)
        return winner == self.who.encode(), winner == self.shared.get(key)

    def increase(self, key, times):
        """Adds one, `times` times, with nothing but COMPARE_SET."""
        seen = ""
        while times:
            wanted = str(int(seen or 0) + 1)
            reply = self.shared.compare_set(key, seen, wanted).decode()
            times -= reply == wanted and self.claimed(key, wanted)
            seen = reply
        return "increased"

    def claimed(self, key, number):
        """True for one client only: two that want the same number get the same reply."""
        return self.shared.add(f"{key}/{number}", 1) == 1

    def words(self, key):
        """What each client has appended, in order."""
        found = {}
        for word in self.shared.get(key).decode().split():
            who, index = word.split(".")
            found.setdefault(who, []).append(index)
        return sorted(found.items())

    def drain(self, queue):
        items = []
        while not isinstance(item := reply_of(self.shared, "queue_pop", (queue, False)), tuple):
            items.append(item)
        return items

    def census(self):
        return self.shared.num_keys(), sorted(self.shared.list_keys())

    def meet(self, number, clients):
        count = self.shared.add("meet", 1)
        if count == clients * (number + 1):
            self.shared.set(f"met/{number}", "")
        self.shared.wait([f"met/{number}"])
        return count


def play_share(port, who, steps, answer):
    replies, failure = [], None
    try:
        client = Client(port, who)
        for step in steps:
            replies.append(client.take(step))
    except Exception:
        failure = traceback.format_exc(limit=2)
    answer.send((replies, failure))
    answer.close()


def play(port, steps, clients, limit):
    """The replies to `steps`, in order; for the steps of a client that did not finish, the error
    that it met."""
    context = multiprocessing.get_context("fork")
    shares = [[step for step in steps if step.who == who] for who in range(clients)]
    pipes, processes = [], []
    for who, share in enumerate(shares):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=play_share, args=(port, who, share, sender), daemon=True)
        process.start()
        sender.close()
        pipes.append(receiver)
        processes.append(process)
    deadline = time.monotonic() + limit
    try:
        results = [
            pipe.recv() if pipe.poll(max(0, deadline - time.monotonic())) else ([], "did not end")
            for pipe in pipes
        ]
    finally:
        for process in processes:
            process.kill()
            process.join()
    remaining = []
    for replies, failure in results:
        remaining.append(iter(replies + [failure] * len(steps)))
    return [next(remaining[step.who]) for step in steps]
