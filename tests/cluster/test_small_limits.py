"""Limits of the shell that started our programs (open files, the size of a file), and streams that
it has closed: what cannot work is one line, and nothing is written into what has taken the place of
a stream."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cluster import BIN, LIMIT, Program, is_built_with, wait_for
from tests.support.ports import free_port


def ddprun(before, *arguments):
    return subprocess.run(["bash", "-c", f'{before}; exec "$@"', "bash", BIN / "ddprun",
                           *map(str, arguments)],
                          capture_output=True, text=True, timeout=LIMIT, check=False)


# A program with fewer than about 10 cannot even be loaded with a sanitizer.
@pytest.mark.parametrize("files", [63, 24, 16, 12, *([] if is_built_with("address", "thread")
                                                     else [8, 4])])
@pytest.mark.parametrize("nodes", [1, 2])
def test_an_agent_with_too_few_open_files_is_refused_in_one_line(files, nodes):
    done = ddprun(f"ulimit -n {files}", "--nproc-per-node", 2, "--nnodes", nodes,
                  "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--no-python", "/bin/true")
    assert done.returncode == 2, done
    assert done.stderr == (f"ddprun: too few file descriptors: this process may open {files}, and "
                           "at least 64 are needed; raise the hard limit (ulimit -Hn)\n")


def test_the_others_hear_of_too_few_open_files(cluster):
    daemon = cluster.daemon()
    words = ["--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{daemon.port}", "--rdzv-id", "few",
             "--embed-daemon", "never", "--no-python", "/bin/true"]
    waits = Program(cluster, "waits", [BIN / "ddprun", "--node-id", "waits", *words])
    waits.says("waiting for 1 of 2 nodes")
    done = ddprun("ulimit -n 32", "--node-id", "small", *words)
    assert done.returncode == 2, done
    waits.says("small cannot take part: too few file descriptors")
    waits.kill(signal.SIGTERM)
    assert waits.wait() == 143


@pytest.mark.parametrize("more", [(), ("--warm", "auto"), ("--survivors", "on")],
                         ids=["cold", "warm", "survivors"])
def test_a_small_limit_of_file_size_ends_no_agent(tmp_path, more):
    script = tmp_path / "script.py"
    script.write_text("print('done')\n")
    done = ddprun("ulimit -f 0", "--nproc-per-node", 2, *more, script)
    assert done.returncode == 0, done
    assert done.stdout.count("done") == 2, done


def test_a_small_limit_of_file_size_is_the_workers_own_affair():
    sees = ("--no-python", "/bin/grep", "SigIgn", "/proc/self/status")
    of_xfsz = 1 << 24
    for before, is_ignored in ("ulimit -f 0", False), ("trap '' XFSZ; ulimit -f 0", True):
        done = ddprun(before, *sees)
        assert done.returncode == 0, done
        assert bool(int(done.stdout.split()[-1], 16) & of_xfsz) == is_ignored, done


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_daemon_with_closed_streams_gives_their_numbers_to_nothing_else(cluster, closed):
    port, file = free_port(), cluster.folder / "port"
    daemon = Program(cluster, "daemon", [BIN / "ddprun-rendezvous", "--port", port, "--port-file",
                                         file, "--state-dir", cluster.folder / "state"],
                     prefix=["bash", "-c", f'exec "$@" {closed}', "bash"])
    wait_for("the daemon's port", file.exists)
    streams = [Path(f"/proc/{daemon.pid}/fd/{number}").readlink() for number in range(3)]
    expected = {"<&-": [0], ">&-": [1], "2>&-": [2]}.get(closed, [0, 1, 2])
    assert [streams[number] for number in expected] == [Path("/dev/null")] * len(expected), streams
    assert "cannot be written" not in daemon.err()


def test_a_daemons_small_limit_of_file_size_ends_nothing(cluster):
    file = cluster.folder / "port"
    done = subprocess.run(["bash", "-c", 'ulimit -f 0; exec "$@"', "bash",
                           BIN / "ddprun-rendezvous", "--port", "0", "--port-file", file],
                          capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 1, done
    assert "cannot write --port-file" in done.stderr and "File too large" in done.stderr, done
