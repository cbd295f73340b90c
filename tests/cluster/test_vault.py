"""The vault: what workers save in memory outlives them, their agent and their node."""

import shutil
import signal
from pathlib import Path

import pytest

from tests.support import machines
from tests.support.cluster import GO_ON, Program, wait_for
from tests.support.small_disk import fill

SHARED_MEMORY = Path("/dev/shm")
# A rate at which copies are made only if there is a reason to hurry: a megabyte takes a day.
SLOW = ("--vault-rate", "10B")


def vault(cluster, name="kept"):
    return ("--vault", cluster.folder / name)


def homes(disk):
    """The folders in memory of the jobs that have their copies in this folder."""
    found = []
    for owner in SHARED_MEMORY.glob("ddprun-vault-*/owner"):
        try:
            if owner.read_text() == f"{disk}\n":
                found.append(owner.parent)
        except OSError:
            pass
    return found


@pytest.fixture(autouse=True)
def no_memory_is_left(tmp_path):
    """Checks that no memory is left, also by tests that kill an agent, when everything that they
    started has ended."""
    yield
    for disk in tmp_path.iterdir():
        for home in homes(disk):
            shutil.rmtree(home)


def retire(cluster):
    """The worker with rank 0 takes no more orders, because from now on they are for that of another
    job."""
    cluster.order(0, "rm $DDPRUN_TEST_CONTROL/events; exec sleep 1000")
    wait_for("the worker to sleep", lambda: not cluster.events_path.exists())
    cluster.events_path.touch()


def save(cluster, rank, step, kib=0):
    """Makes a worker save an entry, and waits until it has (it may have saved that step before)."""
    def saved():
        return sum(one.rank == str(rank) and one.step == str(step)
                   for one in cluster.events("saved"))

    before = saved()
    content = f"head -c {kib}K /dev/zero > $at/bulk; " if kib else ""
    cluster.order(rank, f"at=$DDPRUN_VAULT/step-{step}; mkdir -p $at; {content}echo {step} > "
                        f"$at/model; touch $at/.complete; say saved rank=$RANK step={step}")
    wait_for(f"rank {rank} to save step {step}", lambda: saved() > before)


def seen(cluster, rank, round_number):
    """The complete entries that a worker finds: their names and contents."""
    cluster.order(rank, "say seen rank=$RANK round=$DDPRUN_ROUND vault=$DDPRUN_VAULT entries=$(cd "
                        "$DDPRUN_VAULT && for m in */.complete; do [ -e $m ] || continue; "
                        "d=${m%/*}; echo -n $d:$(cat $d/model),; done)")

    def look():
        return [one for one in cluster.events("seen")
                if (one.rank, one.round) == (str(rank), str(round_number))]

    one = wait_for(f"rank {rank} of round {round_number} to look into its vault", look)[-1]
    return one.vault, sorted(filter(None, one.entries.split(",")))


def kept(cluster, name="kept", node=0):
    """The entries on disk, oldest first."""
    folder = cluster.folder / name / f"node-{node}"
    return [one.name[21:] for one in sorted(folder.glob("0*-step-*"))]


def is_kept(cluster, *steps, **where):
    wait_for(f"{steps} on disk", lambda: kept(cluster, **where) == [f"step-{n}" for n in steps])


def test_without_the_option_there_is_none(cluster):
    a = cluster.agent("node-a")
    cluster.started(1, 1)
    cluster.order(0, "say asked vault=${DDPRUN_VAULT-none}")
    assert wait_for("an answer", lambda: cluster.events("asked"))[0].vault == "none"
    cluster.finish(1)
    assert a.wait() == 0


@pytest.mark.main_path
def test_a_job_that_ends_well_leaves_its_newest_entry_on_disk_and_no_memory(cluster):
    a = cluster.agent("node-a", *vault(cluster), workers=2)
    cluster.started(1, 2)
    save(cluster, 0, 1)
    save(cluster, 1, 2)
    wait_for("step-2 on disk", lambda: kept(cluster)[-1:] == ["step-2"])  # it may overtake step-1
    folder, entries = seen(cluster, 1, 1)
    assert entries == ["step-1:1", "step-2:2"]
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert Path(folder).parent.stat().st_mode & 0o777 == 0o700
    assert seen(cluster, 0, 1)[0] == folder, "the workers of a node share a folder"
    cluster.finish(2)
    assert a.wait() == 0
    assert not Path(folder).parent.exists()
    assert kept(cluster)[-1] == "step-2"
    model = next((cluster.folder / "kept/node-0").glob("*-step-2/files/step-2/model"))
    assert model.read_text() == "2\n"


def test_a_killed_worker_finds_what_it_had_saved_and_it_is_on_disk(cluster):
    a = cluster.agent("node-a", "--max-restarts", 3, *vault(cluster), *SLOW)
    cluster.started(1, 1)
    save(cluster, 0, 1, kib=500)
    # An entry of a saver that was killed has no marker.
    cluster.order(0, "mkdir $DDPRUN_VAULT/step-2; echo half > $DDPRUN_VAULT/step-2/model; "
                     "kill -9 $$")
    cluster.started(2, 1)
    is_kept(cluster, 1)
    assert seen(cluster, 0, 2)[1] == ["step-1:1"]
    assert "put back" not in a.err()
    cluster.finish(1)
    assert a.wait() == 0
    assert kept(cluster) == ["step-1"]


def test_what_a_killed_agent_left_is_taken_over_by_the_next_and_no_other_is_touched(cluster):
    other = cluster.agent("other", *vault(cluster, "others"), run="other")
    cluster.started(1, 1)
    save(cluster, 0, 7)
    (other_home,) = homes(cluster.folder / "others")
    # It belongs to a third job, which is dead as well.
    third = SHARED_MEMORY / f"ddprun-vault-{other_home.stat().st_uid}-{cluster.mark}"
    third.mkdir(mode=0o700)
    (third / "owner").write_text(f"{cluster.folder}/thirds\n")
    (cluster.folder / "thirds").mkdir()

    retire(cluster)
    a = cluster.agent("node-a", *vault(cluster), *SLOW)
    cluster.started(1, 1)
    save(cluster, 0, 1, kib=500)
    (home,) = homes(cluster.folder / "kept")
    a.kill(signal.SIGKILL)
    a.wait()
    assert (home / "node-0/step-1/model").read_text() == "1\n"
    assert not kept(cluster)

    cluster.events_path.write_text("")
    b = cluster.agent("node-a", *vault(cluster))
    cluster.started(1, 1)
    b.says(r"step-1, which a ddprun that died has left in memory, is saved to .*/kept/node-0")
    b.says(r"a ddprun that died has left .*thirds\); it is taken over when that job is started")
    b.says(r"step-1 \(.*\) is put back")
    assert seen(cluster, 0, 1)[1] == ["step-1:1"]
    assert not home.exists()
    assert third.exists() and (other_home / "node-0/step-7/.complete").exists()
    cluster.finish(1)
    assert b.wait() == 0
    assert other.running() and (other_home / "node-0/step-7/.complete").exists()
    other.kill(signal.SIGTERM)
    other.wait()
    assert not other_home.exists()
    is_kept(cluster, 7, name="others")
    cluster.nothing_left()


def test_sigterm_has_the_newest_saved_before_the_agent_ends(cluster):
    a = cluster.agent("node-a", *vault(cluster), *SLOW)
    cluster.started(1, 1)
    save(cluster, 0, 1, kib=500)
    a.kill(signal.SIGTERM)
    assert a.wait() == 143
    assert kept(cluster) == ["step-1"]
    assert not homes(cluster.folder / "kept")
    # The node starts again, with nothing in memory.
    cluster.events_path.write_text("")
    b = cluster.agent("node-a", *vault(cluster))
    cluster.started(1, 1)
    assert seen(cluster, 0, 1)[1] == ["step-1:1"]
    cluster.finish(1)
    assert b.wait() == 0


def test_a_damaged_copy_is_named_and_the_one_before_it_is_put_back(cluster):
    a = cluster.agent("node-a", *vault(cluster))
    cluster.started(1, 1)
    for step in (1, 2):
        save(cluster, 0, step)
        is_kept(cluster, *range(1, step + 1))
    cluster.finish(1)
    assert a.wait() == 0
    model = next((cluster.folder / "kept/node-0").glob("*-step-2/files/step-2/model"))
    model.write_text("3\n")
    cluster.events_path.write_text("")
    b = cluster.agent("node-a", *vault(cluster))
    cluster.started(1, 1)
    b.says(r"warning: vault: .*-step-2 is damaged \(step-2/model does not have its checksum\): the "
           r"one before it is taken")
    assert seen(cluster, 0, 1)[1] == ["step-1:1"]
    cluster.finish(1)
    assert b.wait() == 0


def test_what_fails_again_and_again_is_set_aside(cluster):
    a = cluster.agent("node-a", "--max-restarts", 9, *GO_ON, *vault(cluster))
    cluster.started(1, 1)
    for step in (1, 2):
        save(cluster, 0, step)
        is_kept(cluster, *range(1, step + 1))
    for round_number in (1, 2, 3):
        cluster.started(round_number, 1)
        assert seen(cluster, 0, round_number)[1] == ["step-1:1", "step-2:2"]
        cluster.order(0, "exit 3")
    cluster.started(4, 1)
    a.says(r"warning: vault: step-2 is set aside, in .*/kept/node-0: 2 rounds in a row have failed "
           r"from there without a newer one")
    assert seen(cluster, 0, 4)[1] == ["step-1:1"]
    save(cluster, 0, 3)  # progress
    is_kept(cluster, 1, 3)
    cluster.order(0, "exit 3")
    cluster.started(5, 1)
    assert seen(cluster, 0, 5)[1] == ["step-1:1", "step-3:3"]
    cluster.finish(1)
    assert a.wait() == 0
    assert len(list((cluster.folder / "kept/node-0").glob("set-aside-*-step-2"))) == 1
    assert a.err().count("set aside") == 1


def test_two_jobs_on_a_host_do_not_mix_and_one_folder_is_one_jobs(cluster):
    a = cluster.agent("job-a", *vault(cluster, "a"), run="a")
    cluster.started(1, 1)
    save(cluster, 0, 1)
    is_kept(cluster, 1, name="a")
    retire(cluster)
    b = cluster.agent("job-b", *vault(cluster, "a"), run="b")
    cluster.started(1, 1)
    b.says(r"warning: vault: nothing is copied to .*/a/node-0, or put back from there: another "
           r"ddprun uses it \(each job needs a --vault of its own\)")
    assert seen(cluster, 0, 1)[1] == []
    save(cluster, 0, 2)
    assert len(homes(cluster.folder / "a")) == 2
    cluster.finish(1)
    assert b.wait() == 0
    assert kept(cluster, "a") == ["step-1"]
    assert len(homes(cluster.folder / "a")) == 1
    a.kill(signal.SIGTERM)
    assert a.wait() == 143


def test_a_lost_node_gets_its_part_back_on_another(cluster):
    daemon = cluster.daemon()
    common = dict(endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, conf="backoff_max=0")
    a = cluster.agent("node-a", "--max-restarts", 3, *vault(cluster), **common)
    a.says("here: node-a")
    b = cluster.agent("node-b", "--max-restarts", 3, *vault(cluster), **common)
    cluster.started(1, 2)
    for rank in (0, 1):
        save(cluster, rank, 1)
        is_kept(cluster, 1, node=rank)
    home_of_b = next(home for home in homes(cluster.folder / "kept") if (home / "node-1").exists())
    b.kill(signal.SIGKILL)
    shutil.rmtree(home_of_b)  # with its host
    a.says("node-b was lost")  # until then the run is full
    c = cluster.agent("node-c", "--max-restarts", 3, *vault(cluster), **common)
    cluster.started(2, 2)
    assert [seen(cluster, rank, 2)[1] for rank in (0, 1)] == [["step-1:1"]] * 2
    cluster.finish(2)
    assert [a.wait(), c.wait()] == [0, 0]
    cluster.nothing_left(but=[daemon])  # b's guardian reports to the daemon for a while


def test_a_full_vault_is_one_line_and_the_job_goes_on(cluster, small_disk):
    a = cluster.agent("node-a", *vault(cluster), "--vault-memory", small_disk,
                      "--vault-size", "1500K")
    cluster.started(1, 1)
    for step in (1, 2, 3):  # the older ones are removed before the memory is full
        save(cluster, 0, step, kib=700)
        wait_for(f"step {step} on disk", lambda: f"step-{step}" in kept(cluster))
    assert "more than" not in a.err()
    cluster.order(0, "head -c 1000K /dev/zero > $DDPRUN_VAULT/other")
    a.says(r"warning: vault: other does not fit into the .* that the vault may take "
           r"\(--vault-size\): it is not kept, the newest whole entry is, and training goes on")
    fill(small_disk)
    cluster.finish(1)
    assert a.wait() == 0
    assert a.err().count("does not fit into") == 1
    assert kept(cluster)[-1] == "step-3"
    assert not list(small_disk.glob("ddprun-vault-*"))


@pytest.mark.parametrize("name", ["step-2", "growing"])
def test_a_writer_that_exceeds_the_size_goes_on_and_the_last_whole_entry_stays(cluster, name):
    """It writes ten times what it may take; the memory of what it writes is freed at once."""
    a = cluster.agent("node-a", "--max-restarts", 3, *vault(cluster), "--vault-size", "40M")
    cluster.started(1, 1)
    save(cluster, 0, 1, kib=4000)
    is_kept(cluster, 1)
    (home,) = homes(cluster.folder / "kept")
    large = home / "node-0" / name / "bulk"
    # It writes in pieces, and waits before each until the file takes little memory, however slow
    # the machine is.
    cluster.order(0, f"at=$DDPRUN_VAULT/{name}; mkdir $at; exec 8>$at/bulk; most=0; "
                     "for i in $(seq 40); do head -c 10M /dev/zero >&8; "
                     "for t in $(seq 600); do [ $(stat -c %b $at/bulk) -lt 81920 ] && break; "
                     "sleep 0.1; done; done; exec 8>&-; say written")
    wait_for("it to be written", lambda: cluster.events("written"))
    a.says(rf"warning: vault: {name}/bulk does not fit into the 40 MiB that the vault may take "
           r"\(--vault-size\): it is not kept, the newest whole entry is, and training goes on")
    assert large.stat().st_size == 400 << 20
    wait_for("its memory to be given back", lambda: large.stat().st_blocks * 512 < 41 << 20)
    if name == "step-2":  # the worker believes that it was saved
        cluster.order(0, "touch $DDPRUN_VAULT/step-2/.complete; say marked")
        wait_for("the mark", lambda: cluster.events("marked"))
        wait_for("it to go", lambda: not large.exists())
    cluster.order(0, "exit 3")
    cluster.started(2, 1)
    assert seen(cluster, 0, 2)[1] == ["step-1:1"]
    assert not large.exists()
    save(cluster, 0, 3)  # what fits is kept
    is_kept(cluster, 1, 3)
    cluster.finish(1)
    assert a.wait() == 0
    assert a.err().count("does not fit into") == 1


def test_more_memory_than_there_is_is_cut_to_what_there_is(cluster, small_disk):
    a = cluster.agent("node-a", *vault(cluster), "--vault-memory", small_disk, "--vault-size", "1T")
    a.says(r"warning: vault: --vault-size 1024.0 GiB is more than is free in .*: it may take 2 MiB")
    cluster.finish(1)
    assert a.wait() == 0


def test_a_full_disk_is_one_line_and_the_job_goes_on(cluster, small_disk):
    a = cluster.agent("node-a", "--max-restarts", 3, "--vault", small_disk)
    cluster.started(1, 1)
    save(cluster, 0, 1, kib=3000)
    a.says(r"warning: vault: cannot copy step-1 to .*/node-0: cannot write step-1/bulk: No space "
           r"left on device; training goes on")
    cluster.order(0, "exit 3")
    cluster.started(2, 1)
    assert seen(cluster, 0, 2)[1] == ["step-1:1"]
    save(cluster, 0, 2)
    wait_for("the next one on disk", lambda: list((small_disk / "node-0").glob("0*-step-2")))
    cluster.finish(1)
    assert a.wait() == 0
    assert a.err().count("cannot copy") == 1
    assert not list((small_disk / "node-0").glob(".unfinished*"))


@pytest.mark.parametrize("where, words", [
    (("--vault", "/dev/null/kept"),
     r"nothing is copied to /dev/null/kept/node-0, or put back from there: Not a directory"),
    (("--vault", "/proc/kept"),
     r"nothing is copied to /proc/kept/node-0, or put back from there: No such file or directory"),
])
def test_a_disk_that_takes_nothing_is_one_line_and_the_vault_is_there(cluster, where, words):
    a = cluster.agent("node-a", "--max-restarts", 3, *where)
    cluster.started(1, 1)
    a.says(f"warning: vault: {words}")
    save(cluster, 0, 1)
    cluster.order(0, "exit 3")
    cluster.started(2, 1)
    assert seen(cluster, 0, 2)[1] == ["step-1:1"]
    cluster.finish(1)
    assert a.wait() == 0
    assert len([line for line in a.err().splitlines() if "warning: vault:" in line]) == 1
    assert not homes(where[1])


@pytest.mark.slow
def test_a_disk_that_hangs_is_waited_for_once(cluster):
    disk = cluster.folder / "kept"
    disk.mkdir()
    line = cluster.agent_line("node-a", "--max-restarts", 3, *GO_ON, *vault(cluster))
    a = Program(cluster, "node-a", line, prefix=machines.with_silent_folder(disk))
    a.says(r"warning: vault: .*/kept does not answer: workers are started without what is kept "
           r"there")
    for round_number in (1, 2, 3):
        cluster.started(round_number, 1)
        folder, entries = seen(cluster, 0, round_number)
        assert entries == [f"step-{n}:{n}" for n in range(1, round_number)]
        save(cluster, 0, round_number)
        cluster.order(0, "exit 3" if round_number < 3 else "exit 0")
    assert a.wait() == 0
    assert a.err().count("does not answer") == 1
    assert not Path(folder).exists()


def test_workers_that_wait_for_a_disk_that_hangs_can_be_stopped(cluster):
    disk = cluster.folder / "kept"
    disk.mkdir()
    line = cluster.agent_line("node-a", *vault(cluster))
    a = Program(cluster, "node-a", line, prefix=machines.with_silent_folder(disk))
    wait_for("a vault in memory", lambda: homes(disk))
    a.kill(signal.SIGTERM)
    assert a.wait() == 143
    assert "does not answer" not in a.err(), "the stop came first"
    assert not cluster.events("start")
    assert not homes(disk)


def test_an_entry_from_a_clock_ahead_is_named(cluster):
    a = cluster.agent("node-a", *vault(cluster))
    cluster.started(1, 1)
    cluster.order(0, "mkdir $DDPRUN_VAULT/step-1; echo 1 > $DDPRUN_VAULT/step-1/model; "
                     "touch -d '+1 hour' $DDPRUN_VAULT/step-1/.complete")
    is_kept(cluster, 1)
    cluster.finish(1)
    assert a.wait() == 0
    cluster.events_path.write_text("")
    b = cluster.agent("node-a", *vault(cluster))
    cluster.started(1, 1)
    b.says(r"warning: vault: step-1 was saved in the future, by this node's clock")
    assert seen(cluster, 0, 1)[1] == ["step-1:1"]
    cluster.finish(1)
    assert b.wait() == 0


def test_without_a_file_system_in_memory_there_is_none(cluster):
    a = cluster.agent("node-a", *vault(cluster), "--vault-memory", "/proc")
    a.says(r"warning: vault: there is none: /proc is not a file system in memory \(tmpfs\) "
           r"\(--vault-memory FOLDER names another\); workers are started without DDPRUN_VAULT")
    cluster.started(1, 1)
    cluster.order(0, "say asked vault=${DDPRUN_VAULT-none}")
    assert wait_for("an answer", lambda: cluster.events("asked"))[0].vault == "none"
    cluster.finish(1)
    assert a.wait() == 0


def test_a_hostile_link_is_not_followed(cluster):
    secret = cluster.folder / "secret"
    secret.write_text("for nobody\n")
    a = cluster.agent("node-a", *vault(cluster))
    cluster.started(1, 1)
    save(cluster, 0, 1)
    is_kept(cluster, 1)
    cluster.order(0, f"at=$DDPRUN_VAULT/step-2; mkdir $at; ln -s {secret} $at/model; "
                     f"ln -s {cluster.folder} $DDPRUN_VAULT/all; touch $at/.complete")
    a.says(r"warning: vault: step-2 is not kept: step-2/model is neither a file nor a folder")
    cluster.finish(1)
    assert a.wait() == 0
    assert kept(cluster) == ["step-1"]
    assert secret.read_text() == "for nobody\n"
    assert not homes(cluster.folder / "kept")
