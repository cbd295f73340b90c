"""The checkers of the chaos test: they report everything that they must, and nothing else."""

import itertools
import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from tests.support.chaos import BROKEN, WORKER, Chaos, ChaosFailure
from tests.support.chaos_checks import Checker, Seen, whole_round
from tests.support.chaos_faults import ticks_now
from tests.support.chaos_plan import KINDS, setting_of, steps_of
from tests.support.chaos_watch import Scanner, Watch, parse_environment, parse_stat, stat_of
from tests.support.cluster import BIN, Program, wait_for

PERIOD = 0.02


def round_of(number, world=2, first_pid=None, node="node-a", instance="i", **more):
    first_pid = 100 * number if first_pid is None else first_pid
    return [Seen(pid=first_pid + rank, start=7, node=node, instance=instance, round=number,
                 rank=rank, world_size=world, **more) for rank in range(world)]


def after(*looks, checker=None):
    """The checker after it has seen these observations."""
    checker = checker or Checker()
    for index, processes in enumerate(looks):
        checker.look(index * PERIOD, processes)
    return checker


def said(checker):
    return "\n".join(text for _, text in checker.violations)


def test_one_round_after_the_other_is_no_alarm():
    assert not after(round_of(1), round_of(1), [], round_of(2), round_of(2)).violations


def test_two_rounds_in_one_look_alone_are_no_alarm():
    # The first was read before the second started, and died before the next observation.
    assert not after(round_of(1), round_of(1) + round_of(2), round_of(2)).violations


def test_two_rounds_in_two_looks_are_an_alarm():
    both = round_of(1) + round_of(2)
    checker = after(round_of(1), both, both, both, round_of(2))
    assert "two rounds live at once (workers)" in said(checker)
    assert len(checker.violations) == 1
    assert checker.overlap_seconds == pytest.approx(2 * PERIOD)
    assert not checker.overlapping()


def test_another_process_with_the_same_number_is_another_one():
    old, new = round_of(1, world=1), round_of(2, world=1)
    again = [replace(old[0], start=8, rank=1, world_size=2)]
    assert not after(old + new, again + new, new).overlap_seconds


def test_the_same_round_of_two_instances_is_an_alarm():
    both = round_of(1) + round_of(1, instance="j", first_pid=300)
    assert "two rounds live at once" in said(after(both, both))


def test_a_child_that_was_left_is_an_alarm():
    child = [replace(round_of(1)[0], pid=900, is_worker=False)]
    checker = after(round_of(1) + child, child + round_of(2), child + round_of(2))
    assert "two rounds live at once (a child that was left)" in said(checker)


def test_a_stopped_node_is_excused_until_it_had_time_to_end_its_workers():
    old, new = round_of(1), round_of(2, node="node-b")
    both = old + new
    checker = Checker()
    excuse = checker.excuse("node-a", since=-1.0)
    assert not after(both, both, both, checker=checker).violations
    excuse.until = 3.5 * PERIOD
    checker.look(3 * PERIOD, both)
    assert not checker.violations
    # Both observations must come after the excuse.
    checker.look(4 * PERIOD, both)
    assert not checker.violations
    checker.look(5 * PERIOD, both)
    assert "two rounds live at once" in said(checker)


def test_a_stopped_node_that_has_a_guardian_is_excused_for_what_it_starts_when_it_wakes_only():
    both = round_of(1) + round_of(2, node="node-b")
    checker = Checker()
    checker.excuse("node-a", since=float("inf"))
    assert "two rounds live at once" in said(after(both, both, checker=checker))
    checker = Checker()
    checker.excuse("node-a", since=-1.0).started_from = both[0].start
    assert not after(both, both, checker=checker).violations
    # What was still there when it was woken is a failure of its guardian.
    checker = Checker()
    checker.excuse("node-a", since=-1.0).started_from = both[0].start + 1
    assert "two rounds live at once" in said(after(both, both, checker=checker))


@pytest.mark.parametrize("is_guarded", [True, False])
def test_of_a_guarded_agent_nothing_that_lives_when_it_is_woken_is_excused(tmp_path, is_guarded):
    chaos = Chaos(setting_of(1), tmp_path, say=lambda text: None)
    agent = subprocess.Popen(["sleep", "600"])
    try:
        node = chaos.nodes[0]
        chaos.faults.is_guarded = lambda of: is_guarded
        old = replace(round_of(1)[0], node=node.name, start=stat_of(agent.pid).start)
        chaos.faults.stop(agent.pid, old.start, node.name, 0.0, node)
        excuse = chaos.checker.excuses[0]
        assert excuse.covers(old, time.monotonic()) == (not is_guarded)
        wait_for("a later tick", lambda: ticks_now() > old.start)
        chaos.faults.due()  # wakes it
        assert stat_of(agent.pid).state != "T"
        assert excuse.covers(old, time.monotonic()) == (not is_guarded)
        assert excuse.covers(replace(old, start=ticks_now()), time.monotonic())
        assert excuse.until < time.monotonic() + chaos.faults.allowance + 1
    finally:
        agent.kill()
        agent.wait()
        chaos.close()


def test_a_stopped_node_excuses_no_other():
    checker = Checker()
    checker.excuse("node-c", since=-1.0)
    both = round_of(1) + round_of(2, node="node-b")
    assert after(both, both, checker=checker).violations


def test_a_stopped_guardian_excuses_children_only():
    child = [replace(round_of(1)[0], pid=900, is_worker=False)]
    checker = Checker()
    checker.excuse("node-a", since=-1.0, children_only=True)
    both = child + round_of(2, node="node-b")
    assert not after(both, both, checker=checker).violations
    both = round_of(1) + round_of(2, node="node-b")
    assert after(both, both, checker=checker).violations


def test_a_rank_that_is_there_twice_is_an_alarm():
    twice = [*round_of(1), replace(round_of(1)[1], pid=900)]
    assert "this rank was there before" in said(after(twice))
    # This holds later, too: a rank starts only once in its round.
    assert "this rank was there before" in said(
        after(round_of(1), [], [replace(round_of(1)[1], pid=900)]))


def test_a_rank_outside_the_world_is_an_alarm():
    assert "the world has 2 ranks" in said(after([replace(round_of(1)[0], rank=2)]))


@pytest.mark.parametrize("difference", [{"world_size": 3}, {"master": "h:1"}, {"restarts": 1}])
def test_workers_of_one_round_that_were_told_different_things_are_an_alarm(difference):
    one, other = round_of(1)
    checker = Checker()
    checker.failed.add(("i", 0))
    assert "others of its round" in said(after([one, replace(other, **difference)],
                                               checker=checker))


def test_a_round_number_that_does_not_grow_is_an_alarm():
    assert "round numbers do not grow" in said(after(round_of(2), [], round_of(1)))


def test_an_instance_that_opens_again_is_an_alarm():
    assert not after(round_of(4), [], round_of(1, instance="j")).violations
    assert "an instance that was over opens again" in said(
        after(round_of(4), [], round_of(1, instance="j"), [], round_of(5)))


def test_a_restart_that_no_failure_explains_is_an_alarm():
    checker = after(round_of(1))
    checker.failed |= {("i", 1), ("i", 2)}
    checker.look(1.0, round_of(2, restarts=1))
    # Round 3 came and went between two observations.
    checker.look(2.0, round_of(4, restarts=2))
    assert not checker.violations
    checker.look(3.0, round_of(5, restarts=3))
    assert "1 restarts are charged since round 4, in which 0 rounds had" in said(checker)


def test_a_round_is_charged_once():
    checker = after(round_of(1))
    checker.failed.add(("i", 1))
    checker.look(1.0, round_of(2, restarts=2))
    assert "2 restarts are charged since round 1, in which 1 rounds had" in said(checker)


def test_failures_of_another_instance_explain_nothing():
    checker = after(round_of(1))
    checker.failed.add(("i", 1))
    checker.look(1.0, round_of(1, instance="j", first_pid=300))
    checker.look(2.0, round_of(2, instance="j", restarts=1))
    assert "1 restarts are charged since round 1, in which 0 rounds had" in said(checker)


def test_a_restart_count_that_falls_is_an_alarm():
    checker = Checker()
    after(round_of(1), checker=checker)
    checker.failed |= {("i", 1), ("i", 2)}
    checker.look(1.0, round_of(2, restarts=1))
    assert not checker.violations
    checker.look(2.0, round_of(3, restarts=0))
    assert "the restart count falls from 1 to 0" in said(checker)


def test_a_whole_round_has_every_rank_once_and_is_alone():
    whole = round_of(3, world=3)
    assert whole_round(whole) == ("i", 3)
    assert whole_round([*whole, replace(whole[0], pid=9, is_worker=False)]) == ("i", 3)
    assert whole_round([]) is None
    assert whole_round(whole[1:]) is None
    assert whole_round([*whole[1:], replace(whole[1], pid=9)]) is None
    assert whole_round([*whole, *round_of(4)]) is None
    assert whole_round([replace(whole[0], is_worker=False, world_size=1)]) is None


@pytest.mark.parametrize("told, code, is_wrong", [
    ((), 0, True),
    ((), 1, True),
    ((), -signal.SIGKILL, True),
    ((signal.SIGKILL,), -signal.SIGKILL, False),
    ((signal.SIGTERM,), 0, False),
    ((signal.SIGTERM,), 143, False),
    ((signal.SIGTERM,), 1, True),
    ((signal.SIGTERM,), -signal.SIGSEGV, True),
    ((signal.SIGINT,), 130, False),
    ((signal.SIGINT,), 0, True),
])
def test_an_agent_may_end_as_it_was_told_to(tmp_path, told, code, is_wrong):
    chaos = Chaos(setting_of(1), tmp_path, say=lambda text: None)
    try:
        chaos.nodes[0].told = set(told)
        if is_wrong:
            with pytest.raises(ChaosFailure, match="and nobody told it to"):
                chaos.ended(chaos.nodes[0], code)
            assert "again: tests/cluster/chaos --seed 1" in (tmp_path / "report").read_text()
        else:
            chaos.ended(chaos.nodes[0], code)
    finally:
        chaos.close()


def test_what_no_program_may_say():
    assert BROKEN.search("ddprun: internal error, please report it: slot < size (a/x.cpp:3)")
    assert BROKEN.search("terminate called after throwing an instance of 'std::bad_alloc'")
    assert BROKEN.search("==1==ERROR: AddressSanitizer: heap-use-after-free")
    assert not BROKEN.search("ddprun node-a 05:30:36.446: error: exit code 130: node-a: stopped by "
                             "SIGINT; the rendezvous daemon at 127.0.0.1:1 was lost")


def plan(seed):
    return [setting_of(seed), *itertools.islice(steps_of(setting_of(seed)), 50)]


def test_the_same_seed_is_the_same_plan():
    for seed in range(20):
        assert plan(seed) == plan(seed)
        assert plan(seed)[1:] != plan(seed + 1)[1:]


def test_every_kind_of_fault_and_every_way_to_run_is_drawn():
    settings = [setting_of(seed) for seed in range(100)]
    for name, count in [("embedded", 2), ("nodes_min", 3), ("workers", 3), ("on_join", 2),
                        ("node_timeout", 2), ("on_term", 3), ("strays", 2), ("finish", 3),
                        ("pace", 2), ("host_embeds", 2)]:
        assert len({getattr(setting, name) for setting in settings}) == count, name
    steps = [step for setting in settings for step in itertools.islice(steps_of(setting), 20)]
    assert {step.kind for step in steps} == {kind for kind, _ in KINDS}
    assert {step.when for step in steps} == {"settled", "delay", "round", "gap"}


def test_a_process_line_is_read_whatever_the_name():
    rest = " ".join(str(number) for number in range(4, 60))
    stat = parse_stat(f"12 (a) (b c) T 1 2 3 {rest}\n")
    assert (stat.name, stat.state, stat.parent, stat.session) == ("a) (b c", "T", 1, 3)
    assert stat.lives and not parse_stat(f"12 (a) Z 1 2 3 {rest}\n").lives
    assert parse_stat((open("/proc/self/stat").read())).session == os.getsid(0)


def test_an_environment_that_bash_is_reading_is_not_believed():
    assert parse_environment(b"A=1\0B=x=y\0C=\0") == {"A": "1", "B": "x=y", "C": ""}
    assert parse_environment(b"A=1\0B\0x=y\0C=\0") is None
    assert parse_environment(b"A=1\0B\0x\0") is None


def start_worker(cluster, number, **environment):
    environment = {"DDPRUN_ROUND": str(number), "DDPRUN_INSTANCE": "i", "DDPRUN_NODE_ID": "node-a",
                   "RANK": "0", "WORLD_SIZE": "1", **environment}
    # A session of its own, as with ddprun: a worker leads its session.
    return Program(cluster, f"worker-{number}", [WORKER], environment=environment,
                   start_new_session=True)


def test_real_workers_of_two_rounds_are_seen(cluster):
    checker = Checker()
    watch = Watch(cluster.mark, checker)
    try:
        first = start_worker(cluster, 1)
        wait_for("the first worker", lambda: whole_round(watch.latest.processes) == ("i", 1))
        assert not checker.violations
        start_worker(cluster, 2)
        wait_for("the alarm", lambda: "two rounds live at once (workers)" in said(checker))
        first.kill()
        # It has not been waited for yet, but a zombie does not count as alive.
        wait_for("the second alone", lambda: whole_round(watch.latest.processes) == ("i", 2))
        assert not checker.overlapping()
    finally:
        watch.stop()


def test_a_real_child_in_a_session_of_its_own_is_seen_as_one(cluster):
    scanner = Scanner(cluster.mark)
    worker = start_worker(cluster, 1, DDPRUN_TEST_STRAY="1")

    def look():
        # The shell that starts the child exists for a moment, too.
        stats = {each: stat_of(each.pid) for each in scanner.look().processes}
        alone = [each for each, stat in stats.items() if stat and stat.session == each.pid]
        return len(stats) == len(alone) == 2 and alone

    by_kind = {each.is_worker: each for each in wait_for("worker and child", look)}
    assert by_kind[True].pid == worker.pid
    os.kill(by_kind[False].pid, signal.SIGKILL)
    wait_for("it to be gone", lambda: all(each.is_worker for each in scanner.look().processes))


def test_a_process_that_becomes_ours_later_is_seen(cluster, monkeypatch):
    monkeypatch.setattr("tests.support.chaos_watch.YOUNG_SECONDS", 60)
    scanner = Scanner(cluster.mark)
    # Between fork and exec a process has its parent's environment.
    child = subprocess.Popen(["/bin/sh", "-c", f"read _; DDPRUN_TEST_MARK={cluster.mark} "
                              "DDPRUN_ROUND=3 exec sleep 60"], stdin=subprocess.PIPE)
    try:
        assert child.pid not in {each.pid for each in scanner.look().processes}
        child.stdin.write(b"\n")
        child.stdin.flush()
        wait_for("it to be seen", lambda: child.pid in {
            each.pid for each in scanner.look().processes})
    finally:
        child.kill()
        child.wait()


def test_a_guardian_that_was_started_again_is_seen(cluster):
    scanner = Scanner(cluster.mark)
    agent = Program(cluster, "agent", [BIN / "ddprun", "--no-python", WORKER])
    # Not while it is starting its worker, which is another case.
    wait_for("the worker", lambda: scanner.look().processes)
    first = wait_for("the guardian", lambda: scanner.look().guardian(agent.pid))
    os.kill(first[0], signal.SIGKILL)

    def another():
        found = scanner.look().guardian(agent.pid)
        return found not in (None, first) and found

    second = wait_for("another guardian", another)
    agent.kill(signal.SIGTERM)
    agent.wait()
    wait_for("it to be gone", lambda: second not in scanner.look().identities())
