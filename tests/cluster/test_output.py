"""Output to a bad reader: one that pauses, one that is slow, a disk that is full for a while.

Every line arrives, or a line says how many are lost; and the report ends with the reason.
tests/process/output_test.cpp has the same with smaller limits, for many more readers.
"""

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.cluster import BIN, LIMIT, Program, wait_for
from tests.support.small_disk import fill

REASON = "RuntimeError: the reason of rank 0"
# Rank 0 fails with a traceback, the others wait to be stopped.
SCRIPT = f"""
seq -f "line $RANK %06.0f $(printf %060d 0)" $LINES
[ $CODE = 0 ] && exit 0
[ $RANK = 0 ] || exec sleep 1000
seq -f "  File %06.0f" 1000 >&2
echo "{REASON}" >&2
exit $CODE
"""


class Run:
    """ddprun with its streams in two pipes, which are not read yet."""

    def __init__(self, workers, code, lines):
        self.workers, self.code, self.lines = workers, code, lines
        self.process = subprocess.Popen(
            [BIN / "ddprun", "--standalone", "--max-restarts", "0", "--nproc-per-node",
             str(workers), "--no-python", "/bin/sh", "-c", SCRIPT],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "LINES": str(lines), "CODE": str(code)})

    def read(self, bytes_max=-1, pause=0.0):
        def read_one(stream):
            text = b""
            while chunk := stream.read1(bytes_max):
                text += chunk
                time.sleep(pause)
            return text.decode()

        with ThreadPoolExecutor() as pool:
            return list(pool.map(read_one, (self.process.stdout, self.process.stderr)))

    def check(self, output, errors):
        assert self.process.wait(LIMIT) == self.code, errors[-2000:]
        seen = {rank: [] for rank in range(self.workers)}
        for rank, number in re.findall(r"line (\d+) (\d+) 0{60}$", output, re.MULTILINE):
            seen[int(rank)].append(int(number))
        for rank, numbers in seen.items():
            if self.code == 0 or rank == 0:
                assert numbers == list(range(1, self.lines + 1)), (rank, len(numbers), errors)
        if self.code == 0:
            return
        assert re.search(rf"^(\[\S+:0\] )?{REASON}$", errors, re.MULTILINE), errors
        assert re.search(rf"  \|   {REASON}$", errors, re.MULTILINE), errors
        assert f"exit code {self.code}" in errors.splitlines()[-1], errors


@pytest.mark.parametrize("workers, code, lines, stall", [
    (1, 3, 4200, 5),
    pytest.param(8, 3, 4200, 5, marks=pytest.mark.slow),
    pytest.param(1, 0, 3000, 20, marks=pytest.mark.slow),
    pytest.param(8, 0, 3000, 20, marks=pytest.mark.slow),
    pytest.param(1, 3, 3000, 20, marks=pytest.mark.slow),
    pytest.param(8, 3, 3000, 20, marks=pytest.mark.slow),
])
def test_a_reader_that_pauses_gets_every_line_and_the_reason(workers, code, lines, stall):
    run = Run(workers, code, lines)
    time.sleep(stall)  # this is the reader's pause; it waits for no event
    run.check(*run.read())


@pytest.mark.slow
@pytest.mark.parametrize("workers, code", [(1, 0), (8, 0), (1, 3), (8, 3)])
def test_a_steady_reader_of_20_kb_a_second_gets_every_line(workers, code):
    run = Run(workers, code, 6000 // workers)
    run.check(*run.read(2000, 0.1))


@pytest.mark.slow
def test_a_reader_that_never_comes_back_is_given_up_and_the_loss_is_said():
    run = Run(1, 0, 4200)
    errors = run.process.stderr.read().decode()
    assert run.process.wait() == 0, errors
    lost = re.search(r"(\d+) lines \(\d+ bytes\) of standard output are lost", errors)
    assert lost, errors
    assert run.process.stdout.read().count(b"\n") + int(lost.group(1)) == 4200, errors


# A pipe of 1 MiB takes these lines even if it is not read, and no rank ends before all have
# written.
LINES = 31775
FLOODS = f"""
import fcntl, os, subprocess, sys, time
folder, floods_on, rank = sys.argv[1], sys.argv[2] == "True", os.environ["RANK"]
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
os.write(1, b"a line of 32 bytes, nobody reads\\n" * {LINES})
if rank == "0" and floods_on:
    subprocess.Popen(["yes", "a line of a stray"], start_new_session=True)
open(folder + "/" + rank, "w").close()
while len(os.listdir(folder)) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.05)
os.write(2, b"{REASON}\\n")
os._exit(3)
"""


@pytest.mark.parametrize("floods_on", [False, True], ids=["", "a stray floods on"])
def test_what_a_rank_loses_beyond_the_reserve_is_said(tmp_path, floods_on):
    # Together the twelve write more than is kept without a reader, which is little more than 8 MiB.
    process = subprocess.Popen(
        [BIN / "ddprun", "--standalone", "--max-restarts", "0", "--nproc-per-node", "12",
         "--no-python", sys.executable, "-S", "-c", FLOODS, tmp_path, str(floods_on)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors = ""
    for line in process.stderr:
        errors += line.decode()
        if "exit code 3:" in errors:
            break
    lost = re.findall(r"(\d+) lines \(\d+ bytes\) of rank \d+'s output are lost: "
                      "ddprun's own output was not read in time",
                      errors)
    assert lost, errors
    assert f"  |   {REASON}" in errors, errors
    with ThreadPoolExecutor() as pool:
        output = pool.submit(process.stdout.read)
        errors += process.stderr.read().decode()
    assert process.wait(LIMIT) == 3, errors
    if not floods_on:
        shown = output.result().count(b"] a line of 32 bytes, nobody reads\n")
        assert shown + sum(map(int, lost)) == 12 * LINES, errors


def bytes_in(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_second_signal_ends_the_wait_for_a_reader():
    run = Run(1, 0, 100_000)
    # The worker waits in write(). The first signal stops it; then the agent waits only for the
    # reader.
    full = fcntl.fcntl(run.process.stdout, fcntl.F_GETPIPE_SZ)
    wait_for("a pipe that is full", lambda: bytes_in(run.process.stdout) > full * 3 // 4)
    run.process.send_signal(signal.SIGINT)

    def ended():
        run.process.send_signal(signal.SIGINT)
        return run.process.poll() is not None

    wait_for("the end", ended)
    # What is printed when ddprun gives up the reader after ten seconds.
    assert b"nobody read" not in run.process.stderr.read()
    assert run.process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)


@pytest.mark.parametrize("workers", [1, 8])
def test_a_disk_that_is_full_for_a_while_ends_no_logging(cluster, small_disk, workers):
    lines = 16000 // workers
    path = small_disk / "log"
    with open(path, "wb") as log:
        program = Program(
            cluster, "node-a",
            [BIN / "ddprun", "--standalone", "--nproc-per-node", str(workers), "--no-python",
             "/bin/sh", "-c",
             f"echo begin; until [ -e {cluster.folder}/full ]; do sleep 0.05; done; "
             f"seq -f 'line %06.0f {'x' * 60}' {lines}; touch {cluster.folder}/wrote.$RANK; "
             f"until [ -e {cluster.folder}/room ]; do sleep 0.05; done; echo the end"],
            stdout=log)
    wait_for("the workers", lambda: path.read_text().count("begin") == workers)
    fill(small_disk)
    (cluster.folder / "full").touch()
    # The agent does not wait for the disk: everything is dropped that does not fit in memory.
    wait_for("the workers to have written",
             lambda: len(list(cluster.folder.glob("wrote.*"))) == workers)
    (small_disk / "filler").unlink()
    wait_for("the word of the loss", lambda: "are lost here" in path.read_text())
    (cluster.folder / "room").touch()
    assert program.wait() == 0
    text = path.read_text()
    assert len(re.findall(r"^(\[\S+\] )?the end$", text, re.MULTILINE)) == workers, text[-2000:]
    whole = len(re.findall(r"^(\[\S+\] )?line \d{6} x{60}$", text, re.MULTILINE))
    lost = sum(int(count) for count in re.findall(r"(\d+) lines? \(\d+ bytes\)", text))
    assert whole + lost == lines * workers, (whole, lost)
    assert lost > 0
    assert "No space left on device; trying again" in program.err()


def two_workers(cluster, script, *options):
    return Program(cluster, "a", [BIN / "ddprun", "--standalone", "--node-id", "a",
                                  "--nproc-per-node=2", *options, "--no-python", "/bin/sh", "-c",
                                  f"go() {{ until [ -e {cluster.folder}/$1 ]; do sleep 0.02; "
                                  f"done; }}; {script}"])


def test_a_prompt_is_shown_and_no_other_rank_writes_into_it(cluster):
    job = two_workers(cluster, "if [ $RANK = 1 ]; then go word; echo word; exit 0; fi; "
                      "printf 'name? '; go name; printf 'Anna, '; go end; echo the end")
    wait_for("the prompt", lambda: job.out() == "[a:0] name? ")
    (cluster.folder / "name").touch()
    wait_for("more of it", lambda: job.out() == "[a:0] name? Anna, ")
    (cluster.folder / "word").touch()
    wait_for("the other", lambda: job.out().endswith("Anna, \n[a:1] word\n"))
    (cluster.folder / "end").touch()
    assert job.wait() == 0
    assert job.out() == "[a:0] name? Anna, \n[a:1] word\n[a:0] the end\n"


def test_a_progress_bar_floods_neither_the_output_nor_its_file(cluster, tmp_path):
    states = 20000
    begin = time.monotonic()
    job = two_workers(cluster, f"[ $RANK = 1 ] && exit 0; seq -f '%g of {states}' -s '\r' {states}",
                      "--tee=1", "--log-dir", tmp_path)
    assert job.wait() == 0
    room = 10 * (time.monotonic() - begin) + 2
    lines = job.out().splitlines()
    assert lines[-1] == f"[a:0] {states} of {states}"
    assert len(lines) <= room, len(lines)
    [log] = tmp_path.glob("*/*/0/stdout.log")
    kept = log.read_bytes().split(b"\r")
    assert kept[0] == b"1 of %d" % states
    assert kept[-1] == b"%d of %d\n" % (states, states)
    assert len(kept) <= room + 1, len(kept)


def test_a_line_that_is_cut_says_so(cluster):
    job = two_workers(cluster, "[ $RANK = 1 ] && exit 0; head -c 70000 /dev/zero | tr '\\0' x")
    assert job.wait() == 0
    first, second = job.out().splitlines()
    assert first == "[a:0] " + "x" * 65536 + " [ddprun: this line is too long, and cut here]"
    assert second == "[a:0] " + "x" * (70000 - 65536)


def test_a_rank_that_is_not_shown_still_says_why_it_failed(cluster):
    job = two_workers(cluster, "[ $RANK = 0 ] && exec sleep 1000; echo much; echo the reason >&2; "
                      "exit 3", "--local-ranks-filter=0")
    assert job.wait() == 3
    assert job.out() == ""
    assert "[a:1]" not in job.err()
    assert "  |   the reason\n" in job.err()
