"""Log files of workers: where they are, what is left when a round ends, and a disk that is full.

tests/interop/test_log_files.py compares them with torchrun's, file by file.
"""

import os
import re
import threading

import pytest

from tests.support.cluster import BIN, Program, wait_for
from tests.support.ports import free_port
from tests.support.small_disk import fill

pytestmark = pytest.mark.main_path


def start(cluster, name, script, *options, **variables):
    return Program(cluster, name, [BIN / "ddprun", "--node-id", name, *options, "--no-python",
                                   "/bin/sh", "-c", script], environment=variables)


def place_of(program):
    found = re.search(r": log files: (\S+)$", program.err(), re.MULTILINE)
    return found and found[1]


def test_a_redirected_worker_still_says_why_it_failed(cluster, tmp_path):
    job = start(cluster, "a", "echo many lines; echo the reason >&2; exit 3", "--redirects=3",
                "--log-dir", tmp_path / "logs")
    assert job.wait() == 3
    assert job.out() == ""
    assert "|   the reason" in job.err()
    place = re.search(r"the whole output of rank \d+: (\S+)$", job.err(), re.MULTILINE)[1]
    assert place == place_of(job) + "/attempt_0/0"
    assert (tmp_path / place / "stdout.log").read_text() == "many lines\n"
    assert (tmp_path / place / "stderr.log").read_text() == "the reason\n"


def test_nothing_stays_of_a_run_that_wanted_no_files(cluster, tmp_path):
    job = start(cluster, "a", "echo $TORCHELASTIC_ERROR_FILE; echo x > $TORCHELASTIC_ERROR_FILE; "
                "exit $((TORCHELASTIC_RESTART_COUNT == 0))", "--max-restarts=1",
                TMPDIR=str(tmp_path))
    assert job.wait() == 0
    assert re.fullmatch(rf"{tmp_path}/ddprun_\w+_round_1_error_0.json\n"
                        rf"{tmp_path}/ddprun_\w+_round_2_error_0.json\n", job.out())
    assert not list(tmp_path.glob("ddprun_*"))


def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(cluster, tmp_path):
    (tmp_path / "taken").write_text("a file")
    job = start(cluster, "a", f"touch {tmp_path}/started", "-t3", "--log-dir", tmp_path / "taken")
    assert job.wait() == 2
    assert job.err() == (f"ddprun: --log-dir={tmp_path}/taken: cannot create a folder in "
                         f"{tmp_path}/taken: Not a directory; name one that this node can write, "
                         "with --log-dir\n")
    assert not (tmp_path / "started").exists()


def test_a_round_after_a_join_keeps_the_files_of_the_one_before(cluster, tmp_path):
    logs = tmp_path / "logs"
    script = (f"echo round $DDPRUN_ROUND of $WORLD_SIZE; touch {tmp_path}/$DDPRUN_NODE_ID; "
              "[ $WORLD_SIZE = 1 ] && exec sleep 1000; exit 0")
    options = ["--nnodes=1:2", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--tee=1",
               "--on-join=restart", "--log-dir", logs,
               "--rdzv-conf=last_call_timeout=0.1,settle=0"]
    first = start(cluster, "a", script, *options)
    wait_for("the first round", (tmp_path / "a").exists)
    second = start(cluster, "b", script, *options)
    assert [first.wait(), second.wait()] == [0, 0]
    files = {str(path.relative_to(logs)).partition("_a_")[2].partition("/")[2]: path.read_text()
             for path in logs.glob("none_a_*/*/*/stdout.log")}
    assert files == {"attempt_0/0/stdout.log": "round 1 of 1\n",
                     "attempt_0_round_2/0/stdout.log": "round 2 of 2\n"}
    [of_second] = logs.glob("none_b_*/attempt_0/0/stdout.log")
    assert of_second.read_text() == "round 2 of 2\n"


def test_a_disk_full_of_logs_stops_no_worker(cluster, small_disk):
    lines = 16000
    job = start(cluster, "a",
                f"echo begin; until [ -e {cluster.folder}/full ]; do sleep 0.05; done; "
                f"seq -f 'line %06.0f {'x' * 60}' {lines}; touch {cluster.folder}/wrote; "
                f"until [ -e {cluster.folder}/room ]; do sleep 0.05; done; echo the end",
                "--redirects=1", "--log-dir", small_disk)
    wait_for("the folder", lambda: place_of(job))
    log = small_disk / place_of(job) / "attempt_0/0/stdout.log"
    wait_for("the worker", lambda: log.exists() and log.read_text() == "begin\n")
    fill(small_disk)
    (cluster.folder / "full").touch()
    wait_for("the worker to have written", (cluster.folder / "wrote").exists)
    wait_for("the word", lambda: "cannot be written: No space left on device" in job.err())
    (small_disk / "filler").unlink()
    wait_for("the end of it", lambda: "the log files can be written again" in job.err())
    (cluster.folder / "room").touch()
    assert job.wait() == 0
    text = log.read_text()
    assert text.endswith("the end\n")
    whole = len(re.findall(r"^line \d{6} x{60}$", text, re.MULTILINE))
    lost = sum(int(count) for count in re.findall(r"(\d+) lines? \(\d+ bytes\)", text))
    assert whole + lost == lines, (whole, lost)
    said = re.search(r"written again; (\d+) lines", job.err())
    assert lost == int(said[1]) > 0


def test_what_a_file_of_matching_lines_loses_is_counted(cluster, tmp_path):
    """A pipe that is not read stands in for a disk that hangs. Each worker waits for its own file
    once that has so much in memory. Together they write more to the file that they share than is
    kept for it, 8 MiB."""
    workers, lines = 40, 5000
    job = start(cluster, "a",
                f"until [ -e {tmp_path}/pipe ]; do sleep 0.05; done; "
                f"[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1; "
                f"seq -f 'line %06.0f {'x' * 60}' {lines}", f"--nproc-per-node={workers}",
                "--max-restarts=1", "--tee=1", "--duplicate-stdout-filters=line", "--log-dir",
                tmp_path)
    wait_for("the folder", lambda: place_of(job))
    matches = tmp_path / place_of(job) / "attempt_1/filtered_stdout.log"
    matches.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(matches)
    pipe = os.open(matches, os.O_RDWR)
    (tmp_path / "pipe").touch()
    wait_for("the word of it",
             lambda: re.search(r"filtered_stdout\.log cannot be written as fast", job.err()))
    kept = []
    reader = threading.Thread(target=lambda: kept.append(read_until(pipe, b"\n<end>")))
    reader.start()
    assert job.wait() == 0
    os.write(pipe, b"\n<end>")
    reader.join()
    os.close(pipe)
    text = kept[0].decode()
    whole = len(re.findall(r"^\[\S+\] ?line \d{6} x{60}$", text, re.MULTILINE))
    lost = sum(int(count) for count in re.findall(r"(\d+) lines? \(\d+ bytes\)", text))
    assert whole + lost == workers * lines, (whole, lost, job.err())
    assert lost > 0


def read_until(pipe, end):
    found = b""
    while not found.endswith(end):
        found += os.read(pipe, 1 << 20)
    return found
