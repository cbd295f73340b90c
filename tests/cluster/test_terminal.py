"""ddprun on a terminal: what workers keep of it, colours, and unfinished lines into which nothing
else is written."""

import re
import sys

import pytest

from tests.support.cluster import BIN, wait_for
from tests.support.terminal import Terminal

SIZE = ("import os, sys\n"
        "size = os.get_terminal_size(1).columns if os.isatty(1) else 0\n"
        "line = f\"rank {os.environ['RANK']} {os.isatty(1)} {os.isatty(2)} {size}\\n\"\n"
        "os.write(1, line.encode())\n")  # in one write, so that nothing gets into it


def start(cluster, script, *options, program=("/bin/sh", "-c"), **terminal):
    return Terminal(cluster, "a", [BIN / "ddprun", "--standalone", "--node-id", "a", *options,
                                   "--no-python", *program, script], **terminal)


def python(cluster, script, *options, **terminal):
    return start(cluster, script, *options, program=(sys.executable, "-uc"), **terminal)


def plain(text):
    return re.sub(r"\x1b\[\d*m", "", text)


def test_the_only_worker_keeps_the_terminal_and_its_bytes(cluster):
    job = python(cluster, SIZE + "print('\\r10%\\r20%\\x1b[2Aup', end='')", columns=77)
    assert job.wait() == 0
    begin = b"rank 0 True True 77\r\n\r10%\r20%\x1b[2Aup\r\nddprun a "
    assert begin in job.bytes, job.bytes


def test_a_new_size_is_told(cluster):
    # The signal is blocked from the start, so one that comes early stays pending.
    job = python(cluster, "import signal\nsignal.pthread_sigmask(0, {signal.SIGWINCH})\n" + SIZE +
                 "signal.sigwait({signal.SIGWINCH})\nprint(os.get_terminal_size(2).columns)")
    wait_for("the worker", lambda: "rank 0 True True 80\n" in job.text())
    job.resize(100)
    assert job.wait() == 0
    assert "\n100\n" in job.text(), job.text()


def test_rank_0_of_several_keeps_it_as_wide_as_its_lines(cluster):
    job = python(cluster, SIZE, "--nproc-per-node=2")
    assert job.wait() == 0
    assert "[a:0] rank 0 True True 74\n" in plain(job.text()), job.text()
    assert "[a:1] rank 1 False False 0\n" in plain(job.text()), job.text()


@pytest.mark.parametrize("options", [["--pty=off"], ["--tee=3"]])
def test_with_pty_off_or_a_file_rank_0_has_no_terminal(cluster, tmp_path, options):
    job = python(cluster, SIZE, "--log-dir", tmp_path, *options)
    assert job.wait() == 0
    assert "rank 0 False False 0\n" in job.text()


def test_only_the_stream_that_is_one_of_ours_is_a_terminal(cluster, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        job = python(cluster, SIZE + "print(os.isatty(2), file=sys.stderr)", stdout=out)
    assert job.wait() == 0
    assert (tmp_path / "out").read_text() == "rank 0 False True 0\n"
    assert "\nTrue\n" in job.text()


def test_a_terminal_that_is_not_read_for_a_while_misses_nothing(cluster):
    job = start(cluster, f"seq 200000; touch {cluster.folder}/wrote; exit 0")
    wait_for("some of it", lambda: b"100\r\n" in job.bytes)
    job.may_read.clear()
    assert job.wait() == 0
    numbers = "".join(line for line in job.text().splitlines(True)
                      if not line.startswith("ddprun "))
    assert numbers == "".join(f"{number}\n" for number in range(1, 200001))


def test_a_prompt_is_shown_and_what_is_typed_arrives(cluster):
    job = start(cluster, "[ $RANK = 1 ] && exit 0; printf 'name? '; read name; echo hi $name",
                "--nproc-per-node=2")
    wait_for("the prompt", lambda: plain(job.text()).endswith("[a:0] name? "))
    job.type("Anna\n")
    assert job.wait() == 0
    assert "hi Anna\n" in job.text()


def test_ddpruns_words_never_land_in_a_line_without_an_end(cluster):
    job = start(cluster, "printf 'no end'; exit 3")
    assert job.wait() == 3
    assert "\nno end\nddprun a " in job.text(), job.text()


def test_a_bar_is_drawn_in_its_place_beside_other_ranks(cluster):
    job = start(cluster, f"""
        go() {{ until [ -e {cluster.folder}/$1 ]; do sleep 0.02; done; }}
        if [ $RANK = 1 ]; then go word; echo word; exit 0; fi
        printf '\\r10%%'; go 20; printf '\\r20%%'; go 30; printf '\\r30%%\\n'""",
                "--nproc-per-node=2", environment={"NO_COLOR": "1"})
    seen = lambda text: wait_for(text, lambda: text in job.text())  # noqa: E731
    seen("[a:0] 10%")
    (cluster.folder / "20").touch()
    seen("[a:0] 10%\r\x1b[K[a:0] 20%")
    (cluster.folder / "word").touch()
    seen("[a:0] 20%\n[a:1] word\n")
    (cluster.folder / "30").touch()
    assert job.wait() == 0
    assert "[a:1] word\n[a:0] 30%\n" in job.text(), job.text()


def test_ranks_warnings_and_errors_have_colours_and_files_none(cluster, tmp_path):
    script = "[ $RANK = 1 ] && sleep 1000; echo word; exit 3"
    job = start(cluster, script, "--nproc-per-node=2", "--tee=3", "--log-dir", tmp_path,
                "--duplicate-stdout-filters=word")
    assert job.wait() == 3
    assert "\x1b[36m[a:0] \x1b[0mword\n" in job.text(), job.text()
    assert ": \x1b[33mwarning:\x1b[0m round 1 failed" in job.text(), job.text()
    assert ": \x1b[31merror:\x1b[0m exit code 3" in job.text(), job.text()
    assert [path.read_text() for path in tmp_path.glob("*/*/0/stdout.log")] == ["word\n"]
    assert [path.read_text() for path in tmp_path.glob("*/*/filtered_stdout.log")] == [
        "[a:0] word\n"]


TRACEBACK = """Traceback (most recent call last):
  File "/data/train.py", line 9, in <module>
    step(n)
  File "/venv/lib/python3.12/site-packages/torch/_tensor.py", line 6, in backward
    torch.autograd.backward(
RuntimeError: Connection closed by peer
"""


@pytest.mark.parametrize("color", ["auto", "never"])
def test_frames_of_packages_are_dim_and_those_of_the_script_are_not(cluster, color):
    job = start(cluster, f"[ $RANK = 1 ] && sleep 1000; echo '{TRACEBACK}' >&2; exit 3",
                "--nproc-per-node=2", "--pty=off", f"--color={color}")
    assert job.wait() == 3
    dim = [line.split("] ", 1)[1] for line in job.text().splitlines() if "\x1b[2m" in line]
    frames = TRACEBACK.splitlines()[3:5] if color == "auto" else []
    assert dim == [f"\x1b[0m\x1b[2m{line}\x1b[0m" for line in frames], job.text()
    assert "\n".join(TRACEBACK.splitlines()) in re.sub(r"\[a:0\] ", "", plain(job.text()))


@pytest.mark.parametrize("options, environment", [
    (["--color=never"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})])
def test_there_are_no_colours_where_they_are_not_wanted(cluster, options, environment):
    job = start(cluster, "[ $RANK = 1 ] && sleep 1000; echo word; exit 3", "--nproc-per-node=2",
                *options, environment=environment)
    assert job.wait() == 3
    assert "[a:0] word\n" in job.text()
    assert "\x1b" not in job.text()


def test_the_terminals_modes_are_as_before_though_a_worker_dies_that_changed_them(cluster):
    # Two $ become one, as with torchrun.
    job = start(cluster, f"until [ -e {cluster.folder}/go ]; do sleep 0.02; done; "
                "stty raw -echo; kill -9 $$$$")
    before = job.modes()
    (cluster.folder / "go").touch()
    assert job.program.wait() == 137
    assert job.modes() == before
    job.wait()


def test_a_wait_is_one_line_that_goes_on(cluster):
    daemon = cluster.daemon()
    job = Terminal(cluster, "a", [BIN / "ddprun", "--nnodes=2", "--rdzv-id=job7", "--node-id=a",
                                  f"--rdzv-endpoint=127.0.0.1:{daemon.port}", "--no-python",
                                  "/bin/true"], columns=70)
    wait_for("the line to go on", lambda: len(re.findall(
        rb"\x1b\[Kddprun a [^\r\n]*run job7 at 127\.0\.0\.1:", job.bytes)) >= 2)
    shown = re.findall(rb"\x1b\[K(ddprun a [^\r\n]*)", job.bytes)
    assert all(len(each) < 70 for each in shown), shown
    other = cluster.agent("b", endpoint=f"127.0.0.1:{daemon.port}", nnodes=2, run="job7",
                          command=["--no-python", "/bin/true"])
    assert (job.wait(), other.wait()) == (0, 0)
    left = [each.rsplit("\r\x1b[K", 1)[-1] for each in job.text().split("\n")]
    assert len([each for each in left if "waiting for" in each]) == 1, left  # as it began
    assert len([each for each in left if "round 1 starts" in each]) == 1, left
