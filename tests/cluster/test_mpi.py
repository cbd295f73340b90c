"""ddprun under real MPI launchers, one agent on each host: OpenMPI's mpirun, MPICH's hydra, OpenMPI
5 (PRRTE and PMIx) and Intel MPI (with its own hydra)."""

import os
import re
import signal
import sys

import pytest

from tests.support.cluster import BIN, Program, wait_for
from tests.support.fake_pmi import FakePmi
from tests.support.mpi import EACH_LAUNCHER, MpiHosts
from tests.support.patient_guardian import PatientGuardian
from tests.support.ports import free_port

ABORT = re.compile(r"abort|improper|PMIX ERROR|BAD TERMINATION|detected that one", re.IGNORECASE)
SHOW = 'echo "rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, at $MASTER_ADDR on $(hostname)"'


def shell(text):
    return ["--no-python", "sh", "-c", text]


@pytest.fixture
def two_hosts(cluster, make_hosts):
    return MpiHosts(cluster, make_hosts(2))


def ranks_shown(program):
    """{rank: the host's name}"""
    found = re.findall(r"rank (\d+) of \d+, .* on (\S+)", program.out())
    return {int(rank): host for rank, host in found}


def succeeded(program):
    assert program.wait() == 0, program.err()
    assert not ABORT.search(program.err()), program.err()
    # mpirun does not wait for what it has started on other hosts.
    cluster = program.cluster
    cluster.nothing_left(but=[one for one in cluster.programs if one.running()])


@pytest.mark.parametrize("launcher", EACH_LAUNCHER)
def test_a_job_needs_no_other_word_than_the_hosts(two_hosts, cluster, launcher):
    job = two_hosts.launch(launcher, arguments=["--nproc-per-node", 2, *shell(SHOW)])
    succeeded(job)
    assert ranks_shown(job) == {0: "node1", 1: "node1", 2: "node2", 3: "node2"}
    assert set(re.findall(r"at (\S+) on", job.out())) == {two_hosts.hosts[0].address}
    assert re.search(r"started by .* on 2 nodes, which meet here", job.err())
    cluster.nothing_left()


@pytest.mark.parametrize("launcher", EACH_LAUNCHER)
def test_rank_0_need_not_be_where_mpirun_is(cluster, make_hosts, launcher):
    hosts = MpiHosts(cluster, make_hosts(3))
    job = hosts.launch(launcher, order=hosts.hosts[1:], arguments=shell(SHOW))
    succeeded(job)
    assert ranks_shown(job) == {0: "node2", 1: "node3"}
    assert set(re.findall(r"at (\S+) on", job.out())) == {hosts.hosts[1].address}


@pytest.mark.parametrize("launcher", ["openmpi", "hydra"])
def test_over_a_real_sshd(cluster, net, make_hosts, launcher):
    """As on a cluster, without a script of ours in place of ssh."""
    hosts = MpiHosts(cluster, make_hosts(2))
    for host in hosts.hosts:
        net.server(hosts.name(host), host, behind=hosts.inside(host))
    hosts.script.write_text(f'#!/bin/sh\nexec ssh -F {net.folder}/config "$@"\n')
    job = hosts.launch(launcher, arguments=shell(SHOW))
    succeeded(job)
    assert ranks_shown(job) == {0: "node1", 1: "node2"}
    assert net.servers[1].logins() == 1


@pytest.mark.parametrize("launcher", EACH_LAUNCHER)
def test_one_node_needs_no_rendezvous(two_hosts, launcher):
    job = two_hosts.launch(launcher, order=two_hosts.hosts[:1],
                           arguments=["--nproc-per-node", 2, *shell(SHOW)])
    succeeded(job)
    assert ranks_shown(job) == {0: "node1", 1: "node1"}
    assert set(re.findall(r"at (\S+) on", job.out())) == {"127.0.0.1"}


def test_more_nodes_than_mpirun_has_are_refused(two_hosts, cluster):
    job = two_hosts.launch("openmpi", arguments=["--nnodes", 3, *shell("true")])
    assert job.wait() == 2
    assert "--nnodes=3: OpenMPI's mpirun has 2 nodes; ask it for more" in job.err()
    cluster.nothing_left()


def test_hydra_may_offer_a_port_for_its_exchange(two_hosts):
    job = two_hosts.launch("hydra", "-pmi-port", arguments=shell(SHOW))
    succeeded(job)
    assert ranks_shown(job) == {0: "node1", 1: "node2"}


def test_without_pmix_openmpi_4_meets_where_mpirun_is(two_hosts):
    line = two_hosts.line("openmpi", arguments=shell(SHOW))
    at = line.index(BIN / "ddprun")
    line[at:at] = ["env", "-u", "PMIX_NAMESPACE"]
    job = two_hosts.start(line)
    succeeded(job)
    assert ranks_shown(job) == {0: "node1", 1: "node2"}


def test_rank_0_elsewhere_and_no_pmix_is_one_clear_error(cluster, make_hosts):
    hosts = MpiHosts(cluster, make_hosts(3))
    line = hosts.line("openmpi", order=hosts.hosts[1:], arguments=shell(SHOW))
    at = line.index(BIN / "ddprun")
    line[at:at] = ["env", "-u", "PMIX_NAMESPACE"]
    job = hosts.start(line)
    assert job.wait() == 2
    assert "is not the host of rank 0; say it yourself: --nnodes N" in job.err()
    cluster.nothing_left()


@pytest.mark.parametrize("launcher", EACH_LAUNCHER)
def test_several_on_one_node_are_told_what_to_type(two_hosts, cluster, launcher):
    line = two_hosts.line(launcher, arguments=shell("true"))
    flag = "-hosts" if "-hosts" in line else "-H"
    line[line.index(flag) + 1] = "node1" if flag == "-hosts" else "node1:2"
    for each in ("-np", "-n", "-ppn"):
        if each in line:
            line[line.index(each) + 1] = "2"
    job = two_hosts.start(line)
    assert job.wait() == 2
    assert re.search(r"has started 2 ddprun on this node, and one starts all workers of a node: "
                     r"mpi.* ddprun --nproc-per-node 2", job.err())
    cluster.nothing_left()


@pytest.mark.parametrize("launcher", EACH_LAUNCHER)
def test_workers_see_neither_the_exchange_nor_the_agents_ranks(two_hosts, launcher):
    # None of the descriptors that the launcher's process has passed on is a socket.
    look = 'env; for fd in /proc/$$/fd/*; do echo "$RANK has $(readlink $fd)"; done'
    job = two_hosts.launch(launcher, arguments=shell(look))
    succeeded(job)
    assert "RANK=0" in job.out()
    seen = re.findall(r"(?:OMPI_COMM|OMPI_MCA_(?:orte|ess)|PMI_|PMIX_(?!MCA)|MPI_LOCAL|HYDI_|"
                      r"HYDRA_BSTRAP)\w*=.*", job.out())
    # Options that the test itself has given to mpirun count as the user's.
    assert [line for line in seen if "tmpdir_base" not in line] == []
    assert "socket:" not in job.out()


@pytest.mark.parametrize("library, launcher", [("libmpi.so.40", "openmpi"),
                                               ("libmpich.so.12", "hydra")])
@pytest.mark.parametrize("option", [[], ["--mpi-env"]])
def test_a_worker_may_begin_mpi_by_itself(two_hosts, library, launcher, option):
    """Like `import mpi4py.MPI`, it must not wait for the launcher, which serves only the agent."""
    program = ("import ctypes\n"
               f"mpi = ctypes.CDLL({library!r}, mode=ctypes.RTLD_GLOBAL)\n"
               "print('began', mpi.MPI_Init(None, None), 'ended', mpi.MPI_Finalize())\n")
    script = two_hosts.cluster.folder / "begin.py"
    script.write_text(program)
    job = two_hosts.launch(launcher, arguments=[*option, "--nproc-per-node", 2, "--no-python",
                                                sys.executable, script])
    assert job.wait() == 0, job.err()
    assert len(re.findall("began 0 ended 0", job.out())) == 4


@pytest.mark.parametrize("launcher", EACH_LAUNCHER)
def test_mpirun_ends_with_the_code_of_the_root_cause(two_hosts, cluster, launcher):
    job = two_hosts.launch(launcher, arguments=shell('[ "$RANK" = 0 ] && sleep 600; exit 7'))
    assert job.wait() == 7
    assert re.search(r"rank 1 \(local rank 0\) exited with code 7", job.err())
    cluster.nothing_left()


@pytest.mark.parametrize("launcher", EACH_LAUNCHER)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_job_whose_mpirun_ends(two_hosts, cluster, launcher, number):
    job = two_hosts.launch(launcher, arguments=["--nproc-per-node", 2,
                                                *shell(SHOW + "; sleep 600")])
    for rank in range(4):
        job.says(f"rank {rank} of 4")
    job.kill(number)
    job.wait()
    cluster.nothing_left()


@pytest.mark.parametrize("launcher, number", [
    ("hydra", signal.SIGKILL), ("openmpi 5", signal.SIGINT),
    pytest.param("intel", signal.SIGKILL, marks=pytest.mark.slow)])
def test_guardians_do_not_outstay_a_job_whose_agents_are_killed(cluster, make_hosts, launcher,
                                                                number):
    """mpirun's own processes on the hosts kill all of them at once, so no agent opens rank 0's
    daemon again, to which the others' guardians would report."""
    hosts = MpiHosts(cluster, make_hosts(3))
    job = hosts.launch(launcher, arguments=shell(SHOW + "; sleep 600"))
    for rank in range(3):
        job.says(f"rank {rank} of 3")
    other = PatientGuardian(cluster)
    other.begins()
    job.kill(number)
    job.wait()
    wait_for("nothing of the job to be left", lambda: set(cluster.marked()) <= {other.pid})
    other.has_outlasted_the_others()


@pytest.mark.parametrize("launcher", ["openmpi", "openmpi 5"])
def test_a_mask_of_mpiruns_own_is_taken_back_with_a_line(two_hosts, launcher):
    allowed = os.sched_getaffinity(0)
    look = 'grep Cpus_allowed: /proc/self/status'
    masks = {}
    for name, options in {"asked for": ["--bind-to", "core"], "own": []}.items():
        job = two_hosts.launch(launcher, *options, arguments=shell(look))
        succeeded(job)
        found = re.findall(r"Cpus_allowed:\s+([0-9a-f,]+)", job.out())
        masks[name] = sorted(bin(int(mask.replace(",", ""), 16)).count("1") for mask in found)
        # On mpirun's own node OpenMPI 5 reports only a binding that was asked for:
        # launcher/hosts/mpi.
        if masks["asked for"][0] == len(allowed):
            pytest.skip("one core is all that there is: no mask of mpirun's is less")
        lines = re.findall("mpirun had bound this process to processor", job.err())
        assert len(lines) == {"own": 2, "asked for": 0}[name] or launcher == "openmpi 5"
    assert masks["own"] == [len(allowed)] * 2


@pytest.mark.slow
def test_intel_mpi_gives_all_processors_of_a_node_unless_it_is_asked(two_hosts):
    masks = {}
    for name, options in {"asked for": ["-genv", "I_MPI_PIN_DOMAIN", "core"], "own": []}.items():
        job = two_hosts.launch("intel", *options, arguments=shell("nproc"))
        succeeded(job)
        masks[name] = {int(line.split()[-1]) for line in job.out().splitlines()}
        assert "had bound this process" not in job.err()
    assert masks == {"asked for": {1}, "own": {len(os.sched_getaffinity(0))}}


@pytest.mark.parametrize("launcher, option, tag", [
    ("openmpi", ["--tag-output"], r"\[1,{rank}\]<stdout>:"),
    ("openmpi 5", ["--output", "tag"], r"\[1,{rank}\]<stdout>: ?"),
    ("hydra", ["-prepend-rank"], r"\[{rank}\] "),
    pytest.param("intel", ["-prepend-rank"], r"\[{rank}\] ", marks=pytest.mark.slow),
])
def test_tagged_lines_name_the_node_once(two_hosts, launcher, option, tag):
    """They also have no colour, because OpenMPI's terminal is not the user's."""
    one = two_hosts.launch(launcher, *option, arguments=shell("echo hello"))
    succeeded(one)
    lines = sorted(one.out().splitlines())
    assert len(lines) == 2
    for rank, line in enumerate(lines):
        assert re.fullmatch(tag.format(rank=rank) + "hello", line), one.out()
    two = two_hosts.launch(launcher, *option,
                           arguments=["--nproc-per-node", 2, *shell("echo hello")])
    succeeded(two)
    lines = sorted(two.out().splitlines())
    assert len(lines) == 4
    for rank, line in enumerate(lines):
        assert re.fullmatch(tag.format(rank=rank // 2) + rf"\[{rank}\] hello", line), two.out()


def test_the_line_that_people_have_for_their_own_script(two_hosts):
    """As a person types it on the first host, which it calls localhost, with a variable for all."""
    line = two_hosts.line("openmpi", "--tag-output", "-np", "2", "-x", "OF_MINE",
                          arguments=["--nproc-per-node", 2,
                                     *shell('echo "rank $RANK of $WORLD_SIZE: $OF_MINE"')])
    line[line.index("-H") + 1] = "localhost:1,node2:1"
    job = two_hosts.start(line, {"OF_MINE": "a value"})
    succeeded(job)
    assert sorted(job.out().splitlines()) == [
        f"[1,{rank // 2}]<stdout>:[{rank}] rank {rank} of 4: a value" for rank in range(4)]


@pytest.mark.main_path
@pytest.mark.parametrize("launcher", ["openmpi", "hydra"])
def test_what_is_typed_is_above_all(two_hosts, launcher):
    endpoint = f"{two_hosts.hosts[1].address}:{free_port()}"
    job = two_hosts.launch(launcher, arguments=["--nnodes", 2, "--rdzv-endpoint", endpoint,
                                                "--rdzv-id", "typed", *shell(SHOW)])
    succeeded(job)
    assert set(ranks_shown(job)) == {0, 1}
    assert f"run typed at {endpoint}" in job.err()
    assert "started by" not in job.err()


def test_of_nested_launchers_the_innermost_counts(two_hosts):
    inner = two_hosts.line("hydra", arguments=shell(SHOW))
    outer = two_hosts.line("openmpi", order=two_hosts.hosts[:1])
    job = two_hosts.start([*outer[:outer.index(BIN / "ddprun")], *inner])
    succeeded(job)
    assert ranks_shown(job) == {0: "node1", 1: "node2"}
    assert "started by hydra's mpiexec on 2 nodes, which meet here" in job.err()
    assert ("OpenMPI's mpirun is further out: OMPI_COMM_WORLD_RANK=0 is not used" in job.err())


def test_scripts_that_read_mpis_variables_find_them(cluster):
    look = ('echo "$RANK: $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE '
            '$OMPI_COMM_WORLD_LOCAL_RANK/$OMPI_COMM_WORLD_LOCAL_SIZE $PMI_RANK/$PMI_SIZE '
            '$MPI_LOCALRANKID/$MPI_LOCALNRANKS"')
    job = Program(cluster, "ddprun", [BIN / "ddprun", "--nproc-per-node", 2, "--mpi-env",
                                      *shell(look)])
    assert job.wait() == 0
    lines = sorted(line.split("] ", 1)[1] for line in job.out().splitlines())
    assert lines == [f"{rank}: {rank}/2 {rank}/2 {rank}/2 {rank}/2" for rank in range(2)]


def flux(cluster, server, rank, *arguments):
    """Starts ddprun as flux-shell does: src/shell/task.c and src/shell/pmi/pmi.c of flux-core."""
    fd = server.ends[rank].fileno()
    told = {"FLUX_TASK_RANK": rank, "FLUX_JOB_SIZE": server.size, "FLUX_JOB_NNODES": server.size,
            "FLUX_TASK_LOCAL_ID": 0, "PMI_RANK": rank, "PMI_SIZE": server.size, "PMI_FD": fd}
    return Program(cluster, f"task {rank}", [BIN / "ddprun", *arguments], pass_fds=[fd],
                   environment={name: str(value) for name, value in told.items()})


def test_flux_tasks_meet_by_its_pmi(cluster):
    server = FakePmi(3)
    tasks = [flux(cluster, server, rank, *shell(SHOW)) for rank in range(3)]
    assert [task.wait() for task in tasks] == [0, 0, 0], [task.err() for task in tasks]
    server.close()
    assert server.finalised == {0, 1, 2}
    assert [list(ranks_shown(task)) for task in tasks] == [[0], [1], [2]]
    assert "started by Flux on 3 nodes, which meet here" in tasks[0].err()


@pytest.mark.parametrize("command, lie, words", [
    ("init", "cmd=response_to_init rc=-1", "its PMI answered \"cmd=response_to_init rc=-1\""),
    ("get_maxes", "HTTP/1.1 400 Bad Request", "its PMI gives an invalid answer"),
    ("barrier_in", "", "its PMI has closed the connection"),
    ("get", "cmd=get_result rc=0 value=127.0.0.1", "rank 0 sent something that is not from ddprun"),
])
def test_a_pmi_that_lies_or_goes_away_is_one_line(cluster, command, lie, words):
    server = FakePmi(2, lambda rank, said: lie if (rank, said["cmd"]) == (1, command) else None)
    tasks = [flux(cluster, server, rank, *shell("true")) for rank in range(2)]
    assert tasks[1].wait() == 2
    assert tasks[1].err().startswith("ddprun: Flux has started this as rank 1 of 2, but the nodes "
                                     f"cannot agree on where they meet: {words}")
    assert len(tasks[1].err().splitlines()) == 1
    tasks[0].kill()
    tasks[0].wait()
    server.close()
    cluster.nothing_left()
