"""What outlives a daemon: the daemon, its agents and their guardians are killed, and the same
commands are started again."""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.cluster import BIN, LIMIT, NONE_IS_LOST, Program, get, run_shown, wait_for
from tests.support.ports import free_port

CONF = f"{NONE_IS_LOST},settle=0.1"


def records(folder):
    """All records of a journal; no daemon may have it open."""
    with contextlib.closing(sqlite3.connect(Path(folder) / "journal.sqlite")) as database:
        database.row_factory = sqlite3.Row
        return {row["run_id"]: dict(row) for row in database.execute("SELECT * FROM runs")}


def wait_until_kept(cluster, folder, **fields):
    """Waits until the daemon's journal has this record of the run. A daemon whose disk is slow goes
    on without it, and writes it later. Only the daemon may open the file, so this reads a copy."""
    def look():
        with tempfile.TemporaryDirectory(dir=cluster.folder) as copy:
            try:
                for path in Path(folder).glob("journal.sqlite*"):
                    if not path.name.endswith("-shm"):
                        shutil.copy(path, copy)
                kept = records(copy).get("test", {})
            except (OSError, sqlite3.Error):  # it was written to in the meantime
                return False
        return all(kept.get(name) == value for name, value in fields.items())

    wait_for(f"the journal in {folder} to hold {fields}", look)


def daemon_with_journal(cluster, *arguments, **options):
    """A daemon that has to wait for a second to open its journal runs without one until it is
    started again. In that case this starts it again."""
    while True:
        daemon = cluster.daemon(*arguments, **options)
        if not re.search("the state folder .* has not answered", daemon.err()):
            return daemon
        daemon.kill()
        daemon.wait()


def kill_everything(cluster):
    for program in cluster.programs:
        if program.running():
            program.kill()
    for program in cluster.programs:
        program.wait()
    wait_for("guardians and workers to end", lambda: not cluster.marked())


def two_agents(cluster, port, **options):
    return cluster.nodes("a", "b", endpoint=f"127.0.0.1:{port}", nnodes="2", conf=CONF,
                         arguments=("--max-restarts", "3"), **options)


def test_all_die_together_and_the_same_commands_go_on(cluster):
    port, state = free_port(), cluster.folder / "kept"
    daemon_with_journal(cluster, port, "--state-dir", state, recovery=1)
    two_agents(cluster, port)
    cluster.started(1, 2)
    cluster.order(1, "exit 3")
    cluster.started(2, 2)
    wait_until_kept(cluster, state, restarts_used=1)
    kill_everything(cluster)
    assert records(state)["test"]["restarts_used"] == 1

    daemon = daemon_with_journal(cluster, port, "--state-dir", state, recovery=1)
    again = two_agents(cluster, port)
    again[0].says(r"round 17 starts: ranks 0 on .*, 1 on .*; restart 1 of 3")
    for event in cluster.started(17, 2):
        assert event.restarts == "1"
    cluster.finish(2)
    assert [agent.wait() for agent in again] == [0, 0]
    wait_until_kept(cluster, state, exit_code=0)
    daemon.kill(15)
    daemon.wait()
    kept = records(state)["test"]
    assert (kept["exit_code"], kept["nodes"]) == (0, 0)
    cluster.nothing_left()


def test_a_fresh_daemon_starts_the_first_round_at_once(cluster):
    port = free_port()
    # If the recovery window were waited for, the test would end first.
    daemon_with_journal(cluster, port, "--state-dir", cluster.folder / "kept", recovery=86400)
    agents = two_agents(cluster, port)
    cluster.started(1, 2)
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]


def test_without_a_state_folder_a_daemon_waits_as_before(cluster):
    port = free_port()
    cluster.daemon(port, "--state-dir", "none", recovery=15)
    agents = two_agents(cluster, port)
    agents[0].says("the daemon has just started and waits")
    cluster.started(1, 2)
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]


def test_a_round_outlives_a_daemon_that_is_killed_and_has_a_journal(cluster):
    port, state = free_port(), cluster.folder / "kept"
    daemon = daemon_with_journal(cluster, port, "--state-dir", state, recovery=60)
    agents = two_agents(cluster, port)
    old = cluster.started(1, 2)
    daemon.kill()
    daemon.wait()
    daemon_with_journal(cluster, port, "--state-dir", state, recovery=60)
    wait_for("the round to be kept", lambda: run_shown(port)["phase"] == "running")
    cluster.order(0, "exit 5")
    new = cluster.started(2, 2)
    assert {event.restarts for event in new} == {"1"} and {event.restarts for event in old} == {"0"}
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]


def test_a_second_daemon_does_not_take_the_folder_of_the_first(cluster):
    state = cluster.folder / "kept"
    daemon = daemon_with_journal(cluster, None, "--state-dir", state)
    daemon.says("persists its state in")
    second = subprocess.run([BIN / "ddprun-rendezvous", "--port", "0", "--state-dir", state],
                            capture_output=True, text=True, timeout=LIMIT)
    assert second.returncode == 1
    assert f"{state}/journal.sqlite is in use by another daemon" in second.stdout + second.stderr


def test_daemons_of_one_service_have_a_folder_each(cluster):
    """The folders lie below the one that systemd gives to all of them."""
    folder = cluster.folder / "service"
    for port in (free_port(), free_port()):
        one = Program(cluster, f"daemon-{port}", [BIN / "ddprun-rendezvous", "--bind=127.0.0.1",
                                                  "--port", port],
                      environment={"STATE_DIRECTORY": str(folder)})
        one.says("persists its state in " + str(folder))
    assert len(list(folder.glob("*/journal.sqlite"))) == 2


def test_a_folder_in_which_nothing_was_written_yet_is_one_daemons_too(cluster):
    """Two daemons that start at once in an empty folder have nothing but its lock to collide on."""
    state = cluster.folder / "kept"
    state.mkdir()
    with open(state / "lock", "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        second = subprocess.run([BIN / "ddprun-rendezvous", "--port", "0", "--state-dir", state],
                                capture_output=True, text=True, timeout=LIMIT)
    assert second.returncode == 1
    assert f"{state}/journal.sqlite is in use by another daemon" in second.stdout + second.stderr
    cluster.daemon(None, "--state-dir", state).says("persists its state in")


def test_a_state_folder_that_cannot_be_made_is_said_and_done_without(cluster):
    (cluster.folder / "file").write_text("x")
    daemon = cluster.daemon(None, "--state-dir", cluster.folder / "file" / "below")
    daemon.says(r"cannot create the state folder .*/file/below: Not a directory")
    health = get(daemon.port, "/healthz")[1]
    assert "ok, but kept in memory only: cannot create the state folder" in health
    agent = cluster.agent("a", endpoint=f"127.0.0.1:{daemon.port}")
    cluster.started(1, 1)
    assert "kept in memory only" in get(daemon.port, "/api/v1/runs")[1]
    cluster.finish(1)
    assert agent.wait() == 0


@pytest.mark.parametrize("damage", ["garbage", "half"])
def test_a_damaged_journal_is_to_be_moved_away(cluster, damage):
    folder = cluster.folder / "state"
    daemon = daemon_with_journal(cluster, None, "--state-dir", folder)
    agent = cluster.agent("a", endpoint=f"127.0.0.1:{daemon.port}")
    cluster.started(1, 1)
    cluster.finish(1)
    assert agent.wait() == 0
    daemon.kill(signal.SIGTERM)
    daemon.wait()
    file = folder / "journal.sqlite"
    if damage == "half":
        os.truncate(file, file.stat().st_size // 2 + 100)
    else:
        file.write_bytes(b"garbage" * 1000)
    again = daemon_with_journal(cluster, None, "--state-dir", folder)
    again.says(r"cannot \w+ .*/journal.sqlite: .*: move it away; decisions are kept in memory only")
    assert "move it away" in get(again.port, "/healthz")[1]
    again.kill(signal.SIGTERM)
    again.wait()
    file.rename(folder / "moved")
    last = daemon_with_journal(cluster, None, "--state-dir", folder)
    assert get(last.port, "/healthz")[1] == "ok\n"
    assert "move it away" not in last.err()


def test_a_disk_that_is_full_holds_up_nothing(cluster):
    disk = cluster.folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk],
                             capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip("this machine does not allow to mount (needs root)")
    try:
        daemon = daemon_with_journal(cluster, None, "--state-dir", disk / "state")
        daemon.says("persists its state in")
        agent = cluster.agent("a", "--max-restarts", "1", endpoint=f"127.0.0.1:{daemon.port}")
        cluster.started(1, 1)
        filler = disk / "filler"
        with open(filler, "wb", buffering=0) as into:
            try:
                while True:
                    into.write(b"x" * 512)
            except OSError:
                pass
        cluster.order(0, "exit 3")
        cluster.started(2, 1)
        daemon.says(r"cannot write .*journal.sqlite: .*; until it can be written again, decisions "
                    r"are kept in memory only, and are lost if this daemon ends")
        assert "kept in memory only" in get(daemon.port, "/healthz")[1]
        filler.unlink()
        daemon.says("the journal is writable again")
        wait_for("the journal to be well", lambda: get(daemon.port, "/healthz")[1] == "ok\n")
        cluster.finish(1)
        assert agent.wait() == 0
        wait_until_kept(cluster, disk / "state", exit_code=0)
        daemon.kill(15)
        assert daemon.wait() == 0
        kept = records(disk / "state")["test"]
        assert (kept["restarts_used"], kept["exit_code"]) == (1, 0)
    finally:
        kill_everything(cluster)
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_hosting_agent_that_is_started_again_goes_on(cluster):
    port = free_port()
    two_agents(cluster, port)
    cluster.started(1, 2)
    cluster.order(0, "exit 3")
    cluster.started(2, 2)
    file, = cluster.folder.glob("state/**/journal.sqlite")
    wait_until_kept(cluster, file.parent, restarts_used=1)
    kill_everything(cluster)
    again = two_agents(cluster, port)
    again[0].says(r"round 17 starts: .*; restart 1 of 3")
    cluster.finish(2)
    assert [agent.wait() for agent in again] == [0, 0]
    cluster.nothing_left()


def test_two_first_commands_are_not_held_up_by_a_home_that_cannot_be_written(cluster):
    port = free_port()
    (cluster.folder / "file").write_text("x")
    agents = two_agents(cluster, port,
                        environment={"XDG_STATE_HOME": str(cluster.folder / "file")})
    cluster.started(1, 2)
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0]
    assert os.path.exists(cluster.folder / "file")
