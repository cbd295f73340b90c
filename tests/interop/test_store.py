"""PyTorch's own TCPStore client with our store."""

import random
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist
import torch_versions
from store_client import PATIENCE, connect, renew

SHORT = timedelta(milliseconds=50)


def in_thread(function, *arguments):
    """Starts `function`; the returned call waits for its result."""
    results = []

    def body():
        try:
            results.append((function(*arguments), None))
        except Exception as error:  # raised in the caller below
            results.append((None, error))

    thread = threading.Thread(target=body, daemon=True)
    thread.start()

    def result():
        thread.join(60)
        assert results, "the call did not return"
        if results[0][1]:
            raise results[0][1]
        return results[0][0]

    return result


def test_set_get_add_append_delete(store):
    store.set("k", "v1")
    assert store.get("k") == b"v1"
    store.set("k", bytes(range(256)))
    assert store.get("k") == bytes(range(256))
    store.set("empty", "")
    assert store.get("empty") == b""
    assert store.add("n", 5) == 5
    assert store.add("n", -7) == -2
    assert store.get("n") == b"-2"
    store.append("n", "1")
    assert store.add("n", 1) == -20
    store.append("a", "x")
    store.append("a", "y")
    assert store.get("a") == b"xy"
    assert store.num_keys() == 4
    assert sorted(store.list_keys()) == ["a", "empty", "k", "n"]
    assert store.delete_key("k") is True
    assert store.delete_key("k") is False
    assert store.check(["n", "a"]) is True
    assert store.check(["n", "k"]) is False
    assert store.check([]) is True
    store.multi_set(["m1", "m2"], ["1", ""])
    assert store.multi_get(["m2", "m1", "m1"]) == [b"", b"1", b"1"]


def test_compare_set(store):
    assert store.compare_set("k", "expected", "new") == b"expected"
    assert store.check(["k"]) is False
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "other", "new") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.get("k") == b"second"


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1440, 2048, 65536, 1 << 20, 8 << 20])
def test_values_of_any_size(store, server, size):
    value = random.Random(size).randbytes(size)
    store.set("k", value)
    assert store.get("k") == value
    assert connect(server.port).compare_set("k", "", "x") == (value if size else b"x")
    store.multi_set(["a", "b"], [value.decode("latin1")[:99], "b"])
    assert store.get("b") == b"b"


def test_a_get_waits_for_the_key(store, server):
    other = connect(server.port)
    value = in_thread(other.get, "later")
    store.set("later", "now")
    assert value() == b"now"


def test_a_wait_that_times_out_names_its_keys_and_leaves_the_client_usable(store):
    for _ in range(3):
        with pytest.raises(dist.DistStoreError, match="wait timeout after 50ms, keys: /a, /b"):
            store.wait(["a", "b"], SHORT)
        store.set("a", "1")
        assert store.get("a") == b"1"
        store.delete_key("a")
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError):
        store.get("missing")
    store.set_timeout(PATIENCE)
    store.set("missing", "x")
    assert store.get("missing") == b"x"


def test_a_cancelled_wait_races_with_its_answer(server):
    """The key comes at about the moment at which the client gives up."""
    waiter, setter = connect(server.port), connect(server.port)
    outcomes = {True: 0, False: 0}
    for index in range(150):
        key = f"race{index}"
        started = threading.Event()

        def wait():
            started.set()
            try:
                waiter.wait([key], timedelta(milliseconds=3))
                return True
            except dist.DistStoreError:
                return False

        seen = in_thread(wait)
        started.wait()
        moment = time.perf_counter() + 0.002 + (index % 30) * 0.0001
        while time.perf_counter() < moment:  # the race is the point; no event marks it
            pass
        setter.set(key, str(index))
        outcomes[seen()] += 1
        assert waiter.get(key) == str(index).encode()
        assert waiter.add("count", 1) == index + 1
    print("answered, timed out:", outcomes[True], outcomes[False])


def test_queues(store, server):
    other = connect(server.port)
    assert store.queue_len("q") == 0
    with pytest.raises(dist.QueueEmptyError):
        store.queue_pop("q", False)
    store.queue_push("q", "1")
    store.queue_push("q", "2")
    assert store.queue_len("q") == 2
    assert store.check(["q"]) is True
    assert store.num_keys() == 0
    assert other.queue_pop("q") == b"1"
    assert store.queue_pop("q", False) == b"2"
    with pytest.raises(dist.DistStoreError):
        store.set_timeout(SHORT)
        store.queue_pop("q")
    store.set_timeout(PATIENCE)
    # An item that came too late for one waiter is there for the next.
    other.queue_push("q", "3")
    assert store.queue_pop("q") == b"3"


def test_a_waiter_that_gave_up_does_not_keep_an_item_from_the_next(server):
    pusher = connect(server.port)
    quitter = connect(server.port)
    with pytest.raises(dist.DistStoreError):
        quitter.wait(["q"], SHORT)
    waiter = connect(server.port)
    waiter.set("up", "")
    pusher.queue_push("q", "x")
    assert waiter.queue_pop("q") == b"x"


@pytest.mark.skipif(not torch_versions.has("barrier"), reason="this PyTorch has no barriers")
def test_a_barrier_of_the_clients_own(store, server):
    others = [connect(server.port) for _ in range(2)]
    waits = [in_thread(each.barrier, "b", 3, PATIENCE) for each in others]
    store.barrier("b", 3)
    for wait in waits:
        wait()
    assert store.get("b") == b"3"
    with pytest.raises(dist.DistStoreError, match="barrier timeout after 50ms, key: c"):
        store.barrier("c", 2, SHORT)
    assert store.get("c") == b"1"
    store.barrier("c", 2)


def test_prefix_store_and_clone(store, server):
    first = dist.PrefixStore("one", store)
    second = dist.PrefixStore("two", first)
    first.set("k", "1")
    second.set("k", "2")
    assert store.get("one/k") == b"1"
    assert store.get("one/two/k") == b"2"
    clone = store.clone()
    clone.set("k", "cloned")
    assert store.get("k") == b"cloned"
    assert clone.add("n", 1) + store.add("n", 1) == 3


def test_workers_are_counted_under_init(server):
    stores = [
        dist.TCPStore("127.0.0.1", server.port, 3, False, wait_for_workers=True) for _ in range(3)
    ]
    assert stores[0].num_keys() == 1
    assert stores[0].list_keys() == []  # the bare key "init/" is not shown


def test_many_waiters_of_one_key(server):
    clients = [connect(server.port) for _ in range(64)]
    setter = connect(server.port)
    results = []
    for client in clients:
        results.append(in_thread(client.get, "go"))
    setter.set("go", "now")
    assert [result() for result in results] == [b"now"] * len(clients)


def test_a_client_that_breaks_the_limits_is_closed_and_others_are_not(store, server):
    other = connect(server.port)
    with pytest.raises(dist.DistNetworkError):
        other.set("k", "x" * ((8 << 20) + 1))
        other.get("k")
    other = connect(server.port)
    other.set("text", "abc")
    with pytest.raises(dist.DistNetworkError):
        other.add("text", 1)
    assert store.get("text") == b"abc"


def test_a_renewed_store_knows_nothing_of_the_last_round(store, server):
    store.set("stale", "1")
    assert store.get("stale") == b"1"
    renew(server)
    with pytest.raises(dist.DistNetworkError):
        store.get("stale")
    fresh = connect(server.port)
    assert fresh.check(["stale"]) is False
    assert fresh.num_keys() == 0
