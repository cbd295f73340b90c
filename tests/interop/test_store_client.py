"""worker/store_client, the C++ client, beside PyTorch's own client, on PyTorch's server and on
ours: each of them reads what the other has stored."""

import contextlib
import subprocess
import threading
import time

import pytest
import torch.distributed as dist
import torch_versions
from store_client import BUILD, PATIENCE, connect, our_store

LONG = int(PATIENCE.total_seconds() * 1000)


class Talker:
    """The C++ client in a process of its own: `talker.ask("add", "k", 1)`."""

    def __init__(self, port):
        self.process = subprocess.Popen(
            [BUILD / "bin" / "store_talker", "localhost", str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, *words):
        words = [word.hex() if isinstance(word, bytes) else str(word) for word in words]
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def hear(self):
        kind, _, rest = self.process.stdout.readline().rstrip("\n").partition(" ")
        values = [bytes.fromhex(word) for word in rest.split(" ")] if kind in (
            "value", "values") else None
        if kind == "values":
            return values if rest else []
        return {"ok": None, "none": None, "value": values and values[0],
                "number": int(rest) if kind == "number" else None, "error": "error " + rest}[kind]

    def ask(self, *words):
        self.say(*words)
        return self.hear()

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE.total_seconds()) == 0
        self.process.stdout.close()


@contextlib.contextmanager
def talking(port):
    talker = Talker(port)
    try:
        yield talker
        talker.close()
    finally:
        talker.process.kill()
        talker.process.wait()


@contextlib.contextmanager
def pytorch_store():
    """PyTorch's server on a thread of this process, because a process takes seconds to start."""
    yield dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, use_libuv=True)


@pytest.fixture(params=[our_store, pytorch_store], ids=["ours", "pytorch"])
def port(request):
    with request.param() as server:
        yield server.port


class Acknowledged:
    """PyTorch's client, with writes that are stored when they return, like those of the C++
    client."""

    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        def call(*arguments):
            result = getattr(self.store, name)(*arguments)
            if name in ("set", "append", "multi_set", "queue_push"):
                self.store.num_keys()
            return result

        return call


@pytest.fixture
def store(port):
    return Acknowledged(connect(port))


@pytest.fixture
def talker(port):
    with talking(port) as talker:
        yield talker


def test_values_go_both_ways(store, talker):
    every = bytes(range(256))
    assert talker.ask("set", "k", every) is None
    assert store.get("k") == every
    store.set("k", every * 9000)
    assert talker.ask("get", LONG, "k") == every * 9000
    store.set("empty", "")
    assert talker.ask("get", LONG, "empty") == b""
    assert talker.ask("add", "n", 5) == 5
    assert store.add("n", -7) == -2
    assert talker.ask("add", "n", 1) == -1
    assert talker.ask("append", "a", b"x") is None
    store.append("a", "y")
    assert store.get("a") == b"xy"
    assert talker.ask("check", "a", "n") == 1
    assert talker.ask("check", "a", "missing") == 0
    assert talker.ask("num_keys") == store.num_keys() == 4
    assert sorted(talker.ask("list_keys")) == [b"a", b"empty", b"k", b"n"]
    assert talker.ask("delete_key", "a") == 1
    assert talker.ask("delete_key", "a") == 0
    assert store.check(["a"]) is False
    assert talker.ask("multi_set", "m1", b"1", "m2", b"22") is None
    assert store.multi_get(["m2", "m1"]) == [b"22", b"1"]
    store.multi_set(["m3", "m4"], ["", "4"])
    assert talker.ask("multi_get", LONG, "m4", "m3", "m1") == [b"4", b"", b"1"]


def test_compare_set_has_the_same_four_cases(store, talker):
    for key in ("ours", "theirs"):
        def compare_set(expected, desired):
            if key == "ours":
                return talker.ask("compare_set", key, expected, desired)
            return store.compare_set(key, expected.decode(), desired.decode())
        got = [compare_set(b"old", b"new")]
        assert store.check([key]) is False
        store.set(key, "first")
        got += [compare_set(b"other", b"new"), compare_set(b"first", b"second")]
        assert got == [b"old", b"first", b"second"]
        assert store.get(key) == b"second"


def test_each_waits_for_the_other(store, talker):
    talker.say("get", LONG, "from_python")
    store.set("from_python", "a")
    assert talker.hear() == b"a"
    got = []
    thread = threading.Thread(target=lambda: got.append(store.get("from_cpp")), daemon=True)
    thread.start()
    assert talker.ask("set", "from_cpp", b"b") is None
    thread.join(60)
    assert got == [b"b"]


def ask_in_vain(talker, what, *words):
    """On a busy machine the deadline may pass before the request is sent; then it is tried with a
    later one."""
    for limit in (20 * 2 ** n for n in range(12)):
        answer = talker.ask(what, limit, *words)
        if "not asked" not in answer:
            break
    return answer


def test_a_wait_in_vain_leaves_the_client_usable(store, talker):
    for index in range(3):
        answer = ask_in_vain(talker, "wait", "a", "b")
        assert answer.startswith("error talker: store at localhost:")
        assert ": WAIT 'a', 'b': still waiting after " in answer
        assert talker.ask("add", "n", 1) == index + 1
    store.set("a", "1")
    assert "still waiting" in ask_in_vain(talker, "wait", "a", "b")
    store.set("b", "1")
    assert talker.ask("wait", LONG, "a", "b") is None


def test_a_cancelled_wait_races_with_its_answer(store, talker):
    outcomes = []
    for index in range(150):
        key = f"race{index}"
        talker.say("wait", 2, key)
        moment = time.perf_counter() + 0.0015 + (index % 30) * 0.0001
        while time.perf_counter() < moment:  # the race is the point; no event marks it
            pass
        store.set(key, str(index))
        outcomes.append(talker.hear() is None)
        assert talker.ask("get", LONG, key) == str(index).encode()
        assert talker.ask("add", "count", 1) == index + 1
    print("answered, timed out:", outcomes.count(True), outcomes.count(False))


def test_queues(store, talker):
    assert talker.ask("queue_len", "q") == 0
    assert talker.ask("try_queue_pop", "q") is None
    store.queue_push("q", "1")
    assert talker.ask("queue_push", "q", b"2") is None
    assert store.queue_len("q") == talker.ask("queue_len", "q") == 2
    assert talker.ask("queue_pop", LONG, "q") == b"1"
    assert store.queue_pop("q") == b"2"
    talker.say("queue_pop", LONG, "q")
    store.queue_push("q", "3")
    assert talker.hear() == b"3"


def test_prefixes_are_the_same(store, talker):
    theirs = dist.PrefixStore("two", dist.PrefixStore("one", store.store))
    talker.ask("prefix", "one")
    talker.ask("prefix", "two")
    assert talker.ask("set", "k", b"v") is None
    assert theirs.get("k") == b"v"
    theirs.set("l", "w")
    assert theirs.get("l") == b"w"
    assert talker.ask("get", LONG, "l") == b"w"
    assert sorted(store.list_keys()) == ["one/two/k", "one/two/l"]
    assert sorted(talker.ask("list_keys")) == [b"k", b"l"]


def test_add_to_what_is_no_number_ends_the_connection(store, talker):
    store.set("text", "abc")
    assert "ADD 'text': the store closed the connection" in talker.ask("add", "text", 1)
    assert "the connection was closed" in talker.ask("get", LONG, "text")


def test_a_barrier_of_two(request, port):
    if "pytorch" in request.node.name and not torch_versions.has("barrier"):
        pytest.skip("the server of this PyTorch has no barriers")
    with talking(port) as one, talking(port) as two:
        one.say("barrier", LONG, "b", 2)
        assert two.ask("barrier", LONG, "b", 2) is None
        assert one.hear() is None
        assert "still waiting" in ask_in_vain(one, "barrier", "c", 3)
        one.say("barrier", LONG, "c", 3)
        assert two.ask("barrier", LONG, "c", 3) is None
        assert one.hear() is None


def test_pytorch_counts_it_among_its_workers():
    """PyTorch's server waits for two workers: itself, and the C++ client, which registers."""
    server = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    with talking(server.port) as talker:
        assert talker.ask("count_in") == 1
        joined = dist.TCPStore("127.0.0.1", server.port, 2, False, PATIENCE)
        assert talker.ask("count_in") == 3
        assert joined.num_keys() == 1
