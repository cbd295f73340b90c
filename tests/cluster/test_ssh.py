"""`ddprun -H`: agents on other hosts over a real sshd of the test's own."""

import getpass
import os
import re
import signal
import subprocess

import pytest

from tests.support.cluster import BIN, ROOT, WORKER, wait_for
from tests.support.ports import free_port
from tests.support.ssh_jobs import TO_COPY, head, mounted, refused, two_servers
from tests.support.terminal import Terminal

PAGE = (ROOT / "launcher/hosts/ssh/README.md").read_text()


@pytest.mark.main_path
def test_one_command_runs_a_job_on_two_hosts(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a:2,node-b:1"], host=here)
    started = cluster.started(1, 3)
    assert [one.node for one in started] == ["node-a", "node-a", "node-b"], started
    cluster.finish(3)
    assert program.wait() == 0, program.err()
    assert "every worker succeeded" in program.err()
    for server in servers:
        server.nobody_is_in()


def test_output_comes_home_with_one_report_and_one_exit_code(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a:2,node-b:1"], host=here)
    cluster.started(1, 3)
    cluster.order(0, "echo from rank 0; printf 'a prompt> '")
    cluster.order(1, "echo from rank 1 >&2")
    program.says("from rank 0")
    program.says(r"\[node-a:0\] a prompt> $")
    program.says("from rank 1")
    cluster.order(2, "echo from rank 2; exit 7")
    assert program.wait() == 7, program.err()
    assert "[node-a:0] from rank 0" in program.out()
    assert "[node-a:1] from rank 1" in program.err()
    assert "[node-b:2] from rank 2" in program.out()
    assert program.err().count("after its start; the root cause:") == 1, program.err()
    assert program.err().count("exit code 7") <= 3, program.err()
    assert not re.search(r"ddprun-[0-9a-f]{16}|\"message\"", program.err() + program.out())
    for server in servers:
        server.nobody_is_in()


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "terminal"])
def test_tags_have_no_color_in_a_file(cluster, net, make_hosts, is_file):
    here, _ = two_servers(net, make_hosts)
    line = [*here.prefix, BIN / "ddprun", "-H", "node-a,node-b", *net.arguments, "--no-python",
            "echo", "hello"]
    with open(cluster.folder / "told", "wb") as file:
        terminal = Terminal(cluster, "head", line, **({"stdout": file} if is_file else {}))
        assert terminal.wait() == 0
    told = (cluster.folder / "told").read_bytes() if is_file else terminal.bytes
    assert b"hello" in told
    colored = [each for each in told.splitlines() if b"hello" in each and b"\x1b[" in each]
    assert bool(colored) != is_file, told


def test_a_worker_that_fails_is_started_again(cluster, net, make_hosts):
    here, _ = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], "--max-restarts=1", host=here)
    cluster.started(1, 2)
    cluster.order(1, "exit 3")
    cluster.started(2, 2)
    cluster.finish(2)
    assert program.wait() == 0, program.err()
    assert program.err().count("round 2 starts") == 1, program.err()


def test_directory_environment_and_arguments_go_along(cluster, net, make_hosts, tmp_path):
    here, _ = two_servers(net, make_hosts)
    folder = tmp_path / "a folder; of 'odd' $name"
    folder.mkdir()
    (folder / "show").write_text('#!/bin/sh\nprintf "%s|" "$PWD" "$NCCL_DEBUG" "$ASKED" "$GIVEN" '
                                 '"$UNASKED" "$@"\necho\n')
    (folder / "show").chmod(0o755)
    odd = "it's \"$HOME\" `id` \\ !x\ttab"
    program = head(cluster, net, ["-H", "node-a,node-b"], "-x", "ASKED", "-x", "GIVEN=a,b=c",
                   host=here, command=["--no-python", "./show", odd, "--", ""], cwd=folder,
                   environment={"PWD": str(folder), "NCCL_DEBUG": "WARN", "ASKED": "two\nlines",
                                "UNASKED": "stays"})
    assert program.wait() == 0, program.err()
    shown = f"{folder}|WARN|two\n[node-a:0] lines|a,b=c||{odd}|--||"
    assert shown in program.out(), program.out()
    assert shown.replace("node-a:0", "node-b:1") in program.out()


def test_nothing_of_it_is_in_a_command_line(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], "-x", "TOKEN=hush", host=here,
                   command=["--no-python", WORKER, "an argument"])
    cluster.started(1, 2)
    for server in servers:
        agents = [line for line in server.processes().values() if "ddprun" in line.split()[0]]
        assert agents and not any("hush" in line or "--nnodes" in line for line in agents), agents
    cluster.finish(2)
    assert program.wait() == 0, program.err()


@pytest.mark.main_path
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT],
                         ids=["ctrl-c", "term", "quit"])
def test_a_signal_to_the_head_ends_all(cluster, net, make_hosts, number):
    here, servers = two_servers(net, make_hosts)
    # bash ignores SIGQUIT, so its workers get all the time that they may have.
    program = head(cluster, net, ["-H", "node-a:2,node-b"], "--shutdown-timeout", "2", host=here)
    cluster.started(1, 3)
    program.kill(number)
    assert program.wait() == 128 + number, program.err()
    for server in servers:
        server.nobody_is_in()
    cluster.nothing_left(but=[one.program for one in servers])


def test_usr1_goes_on_to_the_workers_and_nohup_is_heeded(cluster, net, make_hosts):
    here, _ = two_servers(net, make_hosts)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the head inherits this
    program = head(cluster, net, ["-H", "node-a,node-b"], host=here)
    signal.signal(signal.SIGHUP, before)
    cluster.started(1, 2)
    for rank in range(2):
        cluster.order(rank, "trap 'say usr1 $(facts)' USR1; say ready $(facts)")
    wait_for("both to have a handler", lambda: len(cluster.events("ready")) == 2)
    program.kill(signal.SIGHUP)
    program.kill(signal.SIGUSR1)
    wait_for("USR1 at both", lambda: {e.rank for e in cluster.events("usr1")} == {"0", "1"})
    cluster.finish(2)
    assert program.wait() == 0, program.err()


def signal_all(program, number):
    """Like a batch system that knows every process of its job, this signals the head and each of
    its ssh."""
    children = subprocess.run(["pgrep", "-P", str(program.pid), "-x", "ssh"], check=True,
                              capture_output=True, text=True).stdout.split()
    assert len(children) == 2
    for pid in [*map(int, children), program.pid]:
        os.kill(pid, number)


def test_usr1_to_every_process_of_the_head_costs_no_host(cluster, net, make_hosts):
    here, _ = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], host=here)
    cluster.started(1, 2)
    for rank in range(2):
        cluster.order(rank, "trap 'say usr1 $(facts)' USR1; say ready $(facts)")
    wait_for("both to have a handler", lambda: len(cluster.events("ready")) == 2)
    signal_all(program, signal.SIGUSR1)
    wait_for("USR1 at both", lambda: {e.rank for e in cluster.events("usr1")} == {"0", "1"})
    cluster.finish(2)
    assert program.wait() == 0, program.err()
    assert "lost" not in program.err()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_a_signal_to_every_process_of_the_head_still_brings_the_end_home(cluster, net, make_hosts,
                                                                         number):
    here, servers = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], host=here)
    cluster.started(1, 2)
    for rank in range(2):
        # If the first node ends first, the other's workers are stopped by the same signal.
        cluster.order(rank, f"trap 'echo rank {rank} saves; exit 0' {number.name[3:]}; "
                            "say ready $(facts)")
    wait_for("both to have a handler", lambda: len(cluster.events("ready")) == 2)
    signal_all(program, number)
    assert program.wait() == 128 + number, program.err()
    assert "lost" not in program.err(), program.err()
    for rank in range(2):
        assert f"rank {rank} saves" in program.out(), program.out() + program.err()
    for server in servers:
        server.nobody_is_in()


def test_a_host_that_is_drained_does_not_decide_the_exit_code(cluster, net, make_hosts):
    here, (_, other) = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a,node-b"], "--nnodes=1:2", host=here)
    cluster.started(1, 2)
    os.kill(other.agent(), signal.SIGTERM)
    cluster.started(2, 1)
    other.nobody_is_in()
    cluster.order(0, "exit 7")
    assert program.wait() == 7, program.err()


def test_a_head_that_is_killed_leaves_nothing(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    program = head(cluster, net, ["-H", "node-a:2,node-b"], host=here)
    cluster.started(1, 3)
    program.kill()
    program.wait()
    for server in servers:
        server.nobody_is_in()
    cluster.nothing_left(but=[one.program for one in servers])


def test_the_heads_own_host_is_one_of_them(cluster, net, make_hosts):
    hosts = make_hosts(2)
    net.server("localhost", hosts[0], address="127.0.0.1")
    net.server("node-b", hosts[1])
    program = head(cluster, net, ["-H", "localhost:1,node-b:1"], host=hosts[0])
    started = cluster.started(1, 2)
    assert {one.master.split(":")[0] for one in started} == {hosts[0].address}
    cluster.finish(2)
    assert program.wait() == 0, program.err()


def test_two_jobs_from_one_head_do_not_meet(cluster, net, make_hosts):
    here, _ = two_servers(net, make_hosts)
    command = ["--no-python", "sh", "-c", "echo world $WORLD_SIZE"]
    both = [head(cluster, net, ["-H", f"node-{one}"], "--nproc-per-node", "2", host=here,
                 command=command, name=one) for one in "ab"]
    for program in both:
        assert program.wait() == 0, program.err()
        assert program.out().count("world 2") == 2, program.out()


def test_an_endpoint_of_ones_own(cluster, net, make_hosts):
    here, servers = two_servers(net, make_hosts)
    daemon = cluster.daemon(host=here, bind=here.address)
    program = head(cluster, net, ["-H", "node-a,node-b"], "--rdzv-endpoint",
                   f"{here.address}:{daemon.port}", "--rdzv-id=job1", host=here)
    cluster.started(1, 2)
    cluster.finish(2)
    assert program.wait() == 0, program.err()
    assert "job1" in daemon.err()


def test_ddprun_is_copied_where_it_is_not_and_found_there_again(cluster, net, make_hosts):
    hosts = make_hosts(2)
    net.server("node-a", hosts[1],
               behind=mounted(f"-t tmpfs tmpfs {BIN}", f"-t tmpfs tmpfs {net.home('node-a')}"))
    for is_first in (True, False):
        program = head(cluster, net, ["-H", "node-a"], *TO_COPY, host=hosts[0],
                       command=["--no-python", "sh", "-c", "umask"])
        assert program.wait() == 0, program.err()
        assert int(program.out(), 8) != 0o077  # the umask of the folder that has the copy
        copied = re.search(rf"node-a: has no ddprun [\d.]+; copying this one to "
                           rf"{net.home('node-a')}/.cache/"
                           r"ddprun/ddprun-[\d.]+-[0-9a-f]{16}/ddprun\n", program.err())
        assert bool(copied) == is_first, program.err()


def test_a_copy_goes_to_the_next_folder_where_none_may_run_at_home(cluster, net, make_hosts):
    hosts = make_hosts(2)
    net.server("node-a", hosts[1], behind=mounted(
        f"-t tmpfs tmpfs {BIN}", f"-t tmpfs -o noexec tmpfs {net.home('node-a')}",
        "-t tmpfs tmpfs /var/tmp"))
    program = head(cluster, net, ["-H", "node-a"], *TO_COPY, host=hosts[0],
                   command=["--no-python", "sh", "-c", "readlink /proc/$PPID/exe"])
    assert program.wait() == 0, program.err()
    assert re.fullmatch(rf"/var/tmp/ddprun-{os.getuid()}/ddprun-[\d.]+-[0-9a-f]{{16}}/ddprun\n",
                        program.out()), program.out()
    assert f"copying this one to {program.out()}" in program.err()


@pytest.mark.slow
def test_256_hosts(cluster, net, make_hosts):
    """All are names of one machine, each with a connection and an agent of its own."""
    hosts = make_hosts(2)
    server = net.server("node-a", hosts[1], settings=["MaxStartups 256"])
    names = [f"node-a-{number}" for number in range(256)]
    program = head(cluster, net, ["-H", ",".join(names)], "--start-timeout", "600", host=hosts[0],
                   command=["--no-python", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"])
    assert program.wait(900) == 0, program.err()
    told = dict(re.findall(r"^\[(node-a-\d+):\d+\] rank (\d+) of 256$", program.out(), re.M))
    assert told == {name: str(rank) for rank, name in enumerate(names)}, program.out()
    assert program.err().count("every worker succeeded") == 1, program.err()
    server.nobody_is_in()


def test_what_makes_nccl_ids_is_copied_along(cluster, net, make_hosts):
    """A copied agent has its helper beside it, and the helper says that it finds no NCCL."""
    hosts = make_hosts(2)
    net.server("node-a", hosts[1],
               behind=mounted(f"-t tmpfs tmpfs {BIN}", f"-t tmpfs tmpfs {net.home('node-a')}"))
    beside = 'cd "$(dirname "$(readlink /proc/$PPID/exe)")" && ls -l && ./ddprun-nccl-id --help'
    program = head(cluster, net, ["-H", "node-a"], *TO_COPY, host=hosts[0],
                   command=["--no-python", "sh", "-c", beside])
    assert program.wait() == 0, program.out() + program.err()
    assert "copying this one to" in program.err()


def test_no_program_may_run_in_any_folder_there(cluster, net, make_hosts):
    hosts = make_hosts(2)
    folders = [net.home("node-a"), "/var/tmp", "/dev/shm"]
    server = net.server("node-a", hosts[1], behind=mounted(
        f"-t tmpfs tmpfs {BIN}", *(f"-t tmpfs -o noexec tmpfs {one}" for one in folders)))
    program = head(cluster, net, ["-H", "node-a"], host=hosts[0])
    refused(program, "node-a: no agent was started: no folder can keep a program:",
            f"{folders[0]}/.cache/ddprun (no program may run there)", "/dev/shm/ddprun-")
    server.nobody_is_in()


def test_a_program_by_its_path_there(cluster, net, make_hosts, tmp_path):
    here, _ = two_servers(net, make_hosts)
    (tmp_path / "mine").symlink_to(BIN / "ddprun")
    program = head(cluster, net, ["-H", "node-a"], f"--remote-ddprun={tmp_path}/mine", host=here,
                   command=["--no-python", "true"])
    assert program.wait() == 0, program.err()
    program = head(cluster, net, ["-H", "node-a"], "--remote-ddprun=/nowhere/ddprun", host=here)
    refused(program, "node-a: no agent was started: there is no ddprun",
            "at /nowhere/ddprun (--remote-ddprun)")


def test_addresses_of_ipv6_a_port_and_a_user(cluster, net, make_hosts):
    """The hosts are not in ssh's configuration, and have no IPv4 address."""
    here, *hosts = make_hosts(3, ipv6=True)
    port = free_port()
    for number, host in enumerate(hosts):
        net.server(f"server-{number}", host, port=port)
    one, other = (f"[{host.address}]" for host in hosts)
    program = head(cluster, net, ["-H", f"{one}:2,{other}"], "-p", port, "--ssh-user",
                   getpass.getuser(), host=here,
                   command=["--no-python", "sh", "-c", "echo rank $RANK at $MASTER_ADDR"])
    assert program.wait() == 0, program.err()
    said = sorted(re.findall(r"rank (\d) at (\S+)", program.out()))
    assert said == [(str(rank), hosts[0].address) for rank in range(3)], program.out()


def test_the_line_that_people_have_for_horovodrun(cluster, net, make_hosts):
    """The line is `-np 2 -H IP:1,IP:1 -p 12345`, in which only the launcher's name is changed."""
    here, *hosts = make_hosts(3)
    port = free_port()
    for number, host in enumerate(hosts):
        net.server(f"server-{number}", host, port=port)
    at = ",".join(f"{host.address}:1" for host in hosts)
    program = head(cluster, net, ["-np", "2", "-H", at, "-p", port], host=here,
                   command=["--no-python", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"])
    assert program.wait() == 0, program.err()
    tagged = [f"[{host.address}:{rank}] rank {rank} of 2" for rank, host in enumerate(hosts)]
    assert sorted(program.out().splitlines()) == tagged


def test_hosts_from_a_file_and_one_address_alone(cluster, net, make_hosts, tmp_path):
    here, (one, other) = two_servers(net, make_hosts)
    (tmp_path / "hosts").write_text("node-a slots=2 max_slots=4  # the first\n\nnode-b:1\n")
    program = head(cluster, net, ["--hostfile", tmp_path / "hosts", "--exclude=node-b"], host=here)
    assert [each.node for each in cluster.started(1, 2)] == ["node-a", "node-a"]
    cluster.finish(2)
    assert program.wait() == 0, program.err()
    assert other.logins() == 0


def test_what_its_page_shows_is_what_is_printed(cluster, net, make_hosts):
    """There is a stand-in for the script, which has another test."""
    [(line, shown)] = re.findall(r"\$ ddprun (-H .*?) hello.py\n(.*?)```", PAGE, re.S)
    (cluster.folder / "hello.py").write_text("import os\nprint(f\"rank {os.environ['RANK']} of "
                                             "{os.environ['WORLD_SIZE']}: the sum is 6\")\n")
    here, _ = two_servers(net, make_hosts)
    program = head(cluster, net, line.split(), "--quiet", "--log-level=info", host=here,
                   command=["hello.py"], cwd=cluster.folder,
                   environment={"PYTHON_EXEC": "/usr/bin/python3"})
    assert program.wait() == 0, program.err()
    lines = [each for each in shown.splitlines() if each.startswith("[")]
    assert sorted(program.out().splitlines()) == sorted(lines)
    for each in shown.splitlines():
        if each.startswith("ddprun "):
            said = each.split(": ", 1)[1].split(";")[0]
            said = re.escape(said).replace(r"10\.0\.0\.", r"10\.77\.0\.\d*")
            said = re.sub(r"(\\d\*)\d+", r"\1", said)
            assert re.search(said, program.err()), (said, program.err())
