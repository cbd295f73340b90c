"""Workers that are started warm behave as if they were started cold; if that is not possible, they
are started cold."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.cluster import ROOT, wait_for
from tests.support.leaves import differing
from tests.support.warm_agent import ahead

PROBE = ROOT / "tests" / "support" / "warm_probe.py"
# The agent's mark and the round's variables, and each process's own.
ANEW = re.compile(
    r"(DDPRUN_(SESSION|INSTANCE|PROGRESS|STOP)|MASTER_PORT|TORCHELASTIC_ERROR_FILE)=?.*")


def python_of(folder):
    """The Python of a new environment, in whose site-packages a test may install anything."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}"
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return folder / "bin" / "python", packages


def run_twice(cluster, how, command, name, warm, python, workers=2):
    """Runs a job whose first attempt fails once the spares wait, or at once."""
    (cluster.folder / "go").unlink(missing_ok=True)
    agent = cluster.agent("node", "--warm", warm, "--max-restarts", 1, workers=workers, run="probe",
                          command=[*command, how, name, "an argument", ""],
                          environment={"PYTHON_EXEC": str(python), "PYTHONWARNINGS": "default",
                                       "OMP_NUM_THREADS": "1",
                                       "XDG_CACHE_HOME": str(cluster.folder / "cache")})
    for rank in range(workers):
        first = cluster.folder / f"{name}.{rank}.0.json"
        wait_for(f"the first attempt of rank {rank}", first.exists)
    if warm != "off":
        agent.says(f"{workers} spare workers? waits?")
    (cluster.folder / "go").touch()
    code = agent.wait()
    return code, agent, [json.loads((cluster.folder / f"{name}.{rank}.1.json").read_text())
                         for rank in range(workers)]


def without_what_is_anew(path, value):
    is_of_round = "variables" in path or "C/" in path
    return ANEW.sub(r"\1", str(value)) if is_of_round else value


def differences(cold, warm):
    found = differing(cold, warm, without_what_is_anew)
    return {path: both for path, both in found.items() if not ANEW.match(path.rpartition("/")[2])}


def shown(agent):
    """The worker's output, without what differs between any two processes."""
    lines = [*agent.out().splitlines(), "---", *agent.err().splitlines()]
    return [re.sub("0x[0-9a-f]+", "0x", line) for line in lines
            if not line.startswith(("ddprun ", "  | "))]


@pytest.fixture
def python(tmp_path):
    return python_of(tmp_path / "environment")[0]


FORMS = {"script": [PROBE], "module": ["-m", "tests.support.warm_probe"],
         "run-path": ["--run-path", PROBE]}


@pytest.mark.parametrize("form", FORMS)
def test_a_warm_worker_is_what_a_cold_one_is(cluster, python, form, monkeypatch):
    monkeypatch.chdir(ROOT)
    _, _, cold = run_twice(cluster, "well", FORMS[form], "same", "off", python)
    code, agent, warm = run_twice(cluster, "well", FORMS[form], "same", "auto", python)
    assert code == 0, agent.err()
    for rank in range(2):
        was, now = cold[rank], warm[rank]
        assert now["is warm"] and not was["is warm"]
        for when in ("modules at start", "modules"):
            assert was[when] == now[when]
        finders = now["python"]["meta_path"]
        assert finders.pop(0) == "ImportedAhead"
        # The first worker's imports are recorded until no more come.
        if rank == 0:
            assert finders.pop(0) == "ImportRecorder"
        for part in ("system", "python"):
            assert not differences(was[part], now[part])
    # Each process has its own.
    for one, other in zip(warm[0]["random"], warm[1]["random"]):
        assert one != other
    cluster.nothing_left()


@pytest.mark.parametrize("how", ["exit", "text", "raise", "breakpoint", "hook", "signal",
                                 "thread"])
def test_a_warm_worker_ends_as_a_cold_one(cluster, python, how):
    jobs = [run_twice(cluster, how, [PROBE], "same", warm, python, workers=1)
            for warm in ("off", "auto")]
    (cold_code, cold, _), (warm_code, warm, seen) = jobs
    assert seen[0]["is warm"]
    assert warm_code == cold_code
    assert shown(warm) == shown(cold) and len(shown(cold)) > 3
    cluster.nothing_left()


# The first attempt waits for the test, and fails; the next prints whether it was started warm.
WAITING = textwrap.dedent("""
    import sys
    is_warm = {is_warm}
    import os, time
    {early}
    import decimal
    {imports}
    import sched
    folder = os.environ["DDPRUN_TEST_CONTROL"]
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    print(f"attempt {{attempt}} is {{'warm' if is_warm else 'cold'}}", flush=True)
    if attempt == 0:
        while not os.path.exists(folder + "/go"):
            time.sleep(0.01)
        os._exit(3)
    {last}
""")


def start(cluster, tmp_path, early="", imports="", last="", python=None, workers=1, restarts=1,
          options=(), warm="auto", **environment):
    script = tmp_path / "train.py"
    script.write_text(WAITING.format(is_warm=ahead("decimal"), early=early, imports=imports,
                                     last=last))
    # A Python that is not itself a script like pyenv's, which change the environment.
    python = python or python_of(tmp_path / "environment")[0]
    return cluster.agent("node", "--warm", warm, "--max-restarts", restarts, *options,
                         workers=workers, command=[script],
                         environment={"OMP_NUM_THREADS": "1", "PYTHON_EXEC": str(python),
                                      "XDG_CACHE_HOME": str(tmp_path / "cache"),
                                      **environment}), script


def waiting_of(agent, script):
    """Children with the worker's command and without a rank: the zygote and the spares."""
    found = []
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children")
    for pid in children.read_text().split():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
            own = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended in the meantime
        if str(script) in words and "RANK=0" not in variables and own[0] != "Z":
            found.append((int(own[19]), int(pid)))  # its start time
    return [pid for _, pid in sorted(found)]


def spares_of(agent, script):
    return waiting_of(agent, script)[1:]


def time_of_processor(pid):
    """Nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def go(cluster):
    (cluster.folder / "go").touch()


def test_a_script_that_was_edited_is_started_cold(cluster, tmp_path):
    agent, script = start(cluster, tmp_path)
    agent.says("1 spare workers? waits?")
    script.write_text(script.read_text() + "print('edited')\n")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is cold" in agent.out() and "edited" in agent.out()
    assert f"workers are started cold: {script} has changed" in agent.err()
    cluster.nothing_left()


def test_cold_workers_of_a_node_do_not_wait_for_each_other(cluster, tmp_path):
    agent, script = start(cluster, tmp_path, workers=2, imports=textwrap.dedent("""
        print("descriptors", sorted(os.listdir("/proc/self/fd")), flush=True)
        import pathlib"""), last=textwrap.dedent("""
        here = pathlib.Path(folder)
        (here / ("began." + os.environ["RANK"])).touch()
        until = time.monotonic() + 600
        while len(list(here.glob("began.*"))) < 2:
            if time.monotonic() > until:
                os._exit(5)
            time.sleep(0.01)"""))
    agent.says("2 spare workers? waits?")
    script.write_text(script.read_text() + "print('edited')\n")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert agent.out().count("edited") == 2
    # The descriptors that came with the work are not open in a worker that executes its command.
    said = [line.partition("] ")[2] for line in agent.out().splitlines() if "descriptors" in line]
    assert len(said) == 4 and len(set(said)) == 1, said
    cluster.nothing_left()


def test_where_python_sets_its_own_locale_workers_are_warm(cluster, tmp_path):
    agent, _ = start(cluster, tmp_path, LANG="", LC_ALL="", LC_CTYPE="")
    agent.says("1 spare workers? waits?")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is warm" in agent.out(), agent.err()
    cluster.nothing_left()


def test_a_spare_that_stands_still_is_killed_and_holds_nothing_up(cluster, tmp_path):
    agent, script = start(cluster, tmp_path, restarts=2)
    agent.says("1 spare workers? waits?")
    (spare,) = spares_of(agent, script)
    os.kill(spare, signal.SIGSTOP)
    go(cluster)
    agent.says("a spare worker did not begin within 10 s: it is killed")
    assert agent.wait() == 0, agent.err()
    assert "attempt 2 is" in agent.out()
    cluster.nothing_left()


@pytest.mark.parametrize("spares, said, starts", [
    (1, "1 spare worker waits", ["cold", "warm"]), (3, "3 spare workers wait", ["warm", "warm"])])
def test_there_may_be_fewer_or_more_spares_than_workers(cluster, tmp_path, spares, said, starts):
    agent, _ = start(cluster, tmp_path, workers=2, warm=spares)
    agent.says(said)
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert sorted(re.findall("attempt 1 is (....)", agent.out())) == starts, agent.err()
    cluster.nothing_left()


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("code", [3, 0])
def test_what_a_warm_worker_leaves_behind_is_ended(cluster, tmp_path, code):
    """Its children in sessions of their own, with its environment and without any, are ended before
    the next round."""
    agent, _ = start(cluster, tmp_path, restarts=2,
                     options=["--children-grace=0", "--max-quick-failures=0"],
                     last=textwrap.dedent(f"""
        import subprocess
        if attempt == 1:
            strays = [subprocess.Popen(["/bin/sleep", "9999"], start_new_session=True, env=env)
                      for env in (None, {{}})]
            with open(folder + "/strays", "w") as file:
                file.write(" ".join(str(one.pid) for one in strays))
            os._exit({code})
        for pid in open(folder + "/strays").read().split():
            try:
                print("beside it:", open(f"/proc/{{pid}}/stat").read(), flush=True)
            except OSError:  # it has ended
                pass
    """))
    agent.says("1 spare workers? waits?")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is warm" in agent.out(), agent.err()
    assert ("attempt 2 is " in agent.out()) == (code == 3)
    assert not re.search(r"beside it: .*\) [^ZX]", agent.out())
    strays = (cluster.folder / "strays").read_text().split()
    assert len(strays) == 2
    wait_for("the strays to end", lambda: not any(map(lives, strays)))
    cluster.nothing_left()


def test_a_package_that_was_installed_makes_it_cold(cluster, tmp_path):
    python, packages = python_of(tmp_path / "environment")
    agent, _ = start(cluster, tmp_path, python=python)
    agent.says("1 spare workers? waits?")
    (packages / "new-1.0.dist-info").mkdir()
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is cold" in agent.out()
    assert f"workers are started cold: {packages} has changed" in agent.err()
    cluster.nothing_left()


def test_a_package_that_is_upgraded_under_the_job_is_the_new_one(cluster, tmp_path):
    python, packages = python_of(tmp_path / "environment")

    def install(version):
        for old in packages.glob("torch*"):
            old.rename(tmp_path / f"old-{old.name}")
        (packages / f"torch-{version}.dist-info").mkdir()
        (packages / "torch.py").write_text(f"__version__ = {version!r}\n")

    (packages / "torch-2.14.0.dist-info").mkdir()
    (packages / "torch.py").write_text("__version__ = '2.14.0'\n")
    agent, _ = start(cluster, tmp_path, python=python,
                     imports="import torch as package; print('version', package.__version__)")
    agent.says("(1 spare workers? waits?|no more workers are started warm)")
    install("2.15.0")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert re.findall("version (.*)", agent.out()) == ["2.14.0", "2.15.0"]
    assert "attempt 1 is cold" in agent.out()
    cluster.nothing_left()


@pytest.mark.parametrize("change, seen", [
    (lambda kit: (kit / "part.py").write_text("text = 'new text'\n"), "new text"),
    (lambda kit: (kit / "part.py").unlink(), "no text"),
])
def test_a_file_of_a_package_that_has_changed_is_read_again(cluster, tmp_path, change, seen):
    """All workers of the node read it, and the next spares have the new one. A start that does not
    wait for the comparison is not recorded, so the stop lasts until that is done."""
    python, packages = python_of(tmp_path / "environment")
    kit = packages / "kit"
    kit.mkdir()
    (kit / "__init__.py").touch()
    (kit / "part.py").write_text("text = 'old text'\n")
    agent, _ = start(cluster, tmp_path, python=python, workers=2, restarts=2,
                     options=["--max-quick-failures", 0], imports="""
try:
    from kit.part import text
except ImportError:
    text = "no text"
print("it is the", text)


def end_when_told(*_):
    while not os.path.exists(folder + "/may-end"):
        time.sleep(0.01)
    os._exit(1)


import signal
signal.signal(signal.SIGTERM, end_when_told)
""", last="""
if attempt == 1:
    while not os.path.exists(folder + "/go-on"):
        time.sleep(0.01)
    os._exit(4)
""")
    agent.says("2 spare workers wait")
    change(kit)
    go(cluster)
    agent.says("workers are started cold: .* has changed since the imports were made")
    (cluster.folder / "may-end").touch()
    wait_for("the next spares", lambda: agent.err().count("2 spare workers wait") == 2)
    (cluster.folder / "go-on").touch()
    assert agent.wait() == 0, agent.err()
    assert re.findall("attempt (.) is (....)", agent.out()) == \
        [("0", "cold")] * 2 + [("1", "cold")] * 2 + [("2", "warm")] * 2, agent.err()
    assert re.findall("it is the (.*)", agent.out()) == ["old text"] * 2 + [seen] * 4
    said = [line for line in agent.err().splitlines() if "started cold" in line]
    assert len(said) == 1, agent.err()
    assert f"{kit / 'part.py'} has changed since" in said[0] or f"{kit} has changed" in said[0]
    cluster.nothing_left()


def test_what_the_script_sets_is_there_before_what_it_imports(cluster, tmp_path):
    agent, _ = start(cluster, tmp_path, early='os.environ["CHOSEN"] = str(os.getpid())')
    agent.says("1 spare workers? waits?")
    assert re.search("not those that the script imports after it has set CHOSEN", agent.err())
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is cold" in agent.out()  # decimal is imported after it
    cluster.nothing_left()


@pytest.mark.parametrize("text, why", [
    ("import threading, time\nthreading.Thread(target=time.sleep, args=(9999,), "
     "daemon=True).start()\n", "the imports have left threads running: 1"),
    ("import os\nheld = os.open('/dev/null', os.O_RDONLY)\n",
     "the imports have left a descriptor open: /dev/null"),
    ("import subprocess\nchild = subprocess.Popen(['sleep', '9999'])\n",
     "the imports have left a child process"),
])
def test_what_must_not_be_forked_makes_it_cold(cluster, tmp_path, text, why):
    python, packages = python_of(tmp_path / "environment")
    (packages / "forbidden.py").write_text(text)
    agent, _ = start(cluster, tmp_path, imports="import forbidden", last="os._exit(0)",
                     python=python)
    agent.says(f"no more workers are started warm: {why}")
    go(cluster)
    agent.wait()
    assert "attempt 1 is cold" in agent.out()
    cluster.nothing_left()


def test_a_module_that_reads_its_rank_is_not_imported_ahead(cluster, tmp_path):
    python, packages = python_of(tmp_path / "environment")
    (packages / "knowing.py").write_text("import os\nrank = os.environ.get('RANK')\n")
    agent, _ = start(cluster, tmp_path, imports="import knowing; print('rank is', knowing.rank)",
                     python=python)
    agent.says("module knowing is not imported ahead: it reads RANK as it is imported")
    agent.says("1 spare workers? waits?")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is warm" in agent.out()
    assert agent.out().count("rank is 0") == 2
    cluster.nothing_left()


def test_modules_of_the_scripts_own_are_read_again(cluster, tmp_path):
    own = tmp_path / "mine.py"
    own.write_text("print('the first text')\n")
    agent, _ = start(cluster, tmp_path, imports="import mine")
    agent.says("1 spare workers? waits?")
    own.write_text("print('another text')\n")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is warm" in agent.out()
    assert agent.out().count("the first text") == agent.out().count("another text") == 1
    cluster.nothing_left()


def test_a_warm_worker_that_fails_at_once_is_followed_by_cold_ones(cluster, tmp_path):
    agent, _ = start(cluster, tmp_path, last="sys.exit(5)")
    agent.says("1 spare workers? waits?")
    go(cluster)
    assert agent.wait() == 5, agent.err()
    assert "a worker failed in its first second after a warm start" in agent.err()
    cluster.nothing_left()


def test_a_script_that_fails_late_in_its_imports_has_itself_to_blame(cluster, tmp_path):
    """A cold start takes longer than a warm one that fails at once, and nothing more follows from
    that."""
    python, packages = python_of(tmp_path / "environment")
    (packages / "slow.py").write_text(
        "import os, time\n"
        "time.sleep(2 if os.path.exists(os.environ['DDPRUN_TEST_CONTROL'] + '/go') else 0)\n")
    agent, _ = start(cluster, tmp_path, python=python, restarts=3, imports="import slow",
                     last="sys.exit(5)", options=["--max-quick-failures", 0])
    agent.says("1 spare workers? waits?")
    go(cluster)
    assert agent.wait() == 5, agent.err()
    found = re.findall("attempt (.) is (....)", agent.out())
    assert found[:3] == [("0", "cold"), ("1", "warm"), ("2", "cold")]
    assert "no more workers are started warm" not in agent.err()
    cluster.nothing_left()


def kept_list(tmp_path):
    """The file in which the imports of a script are kept for its next start."""
    folder = tmp_path / "cache" / "ddprun" / "imports"
    (kept,) = wait_for("the list", lambda: [one for one in folder.glob("*") if not one.suffix])
    return kept


def live_once(cluster, tmp_path):
    """Runs the script once; returns the list that it leaves."""
    agent, script = start(cluster, tmp_path)
    agent.says("1 spare workers? waits?")
    kept = kept_list(tmp_path)
    go(cluster)
    assert agent.wait() == 0, agent.err()
    (cluster.folder / "go").unlink()
    return kept, script


def start_on_two_nodes(cluster, tmp_path, script, first_says):
    """Starts the second node when the first one has printed this; returns both agents when all
    workers run."""
    daemon = cluster.daemon()
    nodes = []
    for name in ("a", "b"):
        nodes.append(cluster.agent(
            name, "--warm", "auto", "--max-restarts", 1, endpoint=f"127.0.0.1:{daemon.port}",
            nnodes=2, command=[script],
            environment={"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache"),
                         "PYTHON_EXEC": str(tmp_path / "environment" / "bin" / "python")}))
        if name == "a":
            nodes[0].says(first_says)
    for node in nodes:
        wait_for("the worker", lambda said=node: "attempt 0 is " in said.out())
    go(cluster)
    for node in nodes:
        assert node.wait() == 0, node.err()
    daemon.kill(signal.SIGTERM)
    daemon.wait()
    cluster.nothing_left()
    return nodes


def test_a_first_start_of_a_known_script_finds_its_imports_made(cluster, tmp_path):
    """A node that waits for another one makes the imports of the script's last run."""
    _, script = live_once(cluster, tmp_path)
    first, _ = start_on_two_nodes(cluster, tmp_path, script, "1 spare workers? waits?")
    assert "attempt 0 is warm" in first.out(), first.err()


@pytest.mark.parametrize("text", [b"", b"\x00\xff" * 1000, "its end is missing"])
def test_a_list_of_imports_that_was_spoilt_costs_one_line(cluster, tmp_path, text):
    kept, script = live_once(cluster, tmp_path)
    kept.write_bytes(kept.read_bytes()[:-9] if isinstance(text, str) else text)
    first, _ = start_on_two_nodes(cluster, tmp_path, script, "when it last ran is not known")
    said = [line for line in first.err().splitlines() if "when it last ran is not known" in line]
    assert len(said) == 1 and said[0].endswith(f"{kept} is not whole"), first.err()
    assert "attempt 0 is cold" in first.out() and "attempt 1 is " in first.out()


def test_a_list_of_another_version_is_left_alone(cluster, tmp_path):
    kept, script = live_once(cluster, tmp_path)
    kept.write_bytes(kept.read_bytes().replace(b"ddprun-imports 3", b"ddprun-imports 2", 1))
    first, _ = start_on_two_nodes(cluster, tmp_path, script, "waiting for 1 of 2 nodes")
    assert "when it last ran" not in first.err()
    assert "attempt 0 is cold" in first.out() and "attempt 1 is " in first.out()


def test_programs_are_started_as_always(cluster):
    agent = cluster.agent("node", "--warm", "auto",
                          command=["--no-python", "sh", "-c", "echo $0 $RANK", "program"])
    assert agent.wait() == 0
    assert agent.out() == "program 0\n"
    assert "--warm is for Python scripts" in agent.err()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_spare_outlives_its_agent(cluster, tmp_path, number):
    agent, _ = start(cluster, tmp_path)
    agent.says("1 spare workers? waits?")
    assert len(cluster.marked()) >= 4  # the agent, the worker, the zygote and a spare
    agent.kill(number)
    agent.wait()
    cluster.nothing_left()


def test_what_waits_takes_no_time_of_the_processors(cluster, tmp_path):
    if time_of_processor(os.getpid()) == 0:
        pytest.skip("this kernel does not say how long a process has run (/proc/PID/schedstat)")
    agent, script = start(cluster, tmp_path)
    agent.says("1 spare workers? waits?")
    waiting = waiting_of(agent, script)
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    workers = [pid for pid in children if int(pid) not in waiting
               and b"\0RANK=0\0" in Path(f"/proc/{pid}/environ").read_bytes()]
    assert len(waiting) == 2 and len(workers) == 1

    def are_at_rest_while_the_worker_works():
        before = [time_of_processor(pid) for pid in waiting]
        since = time_of_processor(workers[0])
        wait_for("the worker to work", lambda: time_of_processor(workers[0]) - since > 5_000_000)
        return [time_of_processor(pid) for pid in waiting] == before

    wait_for("the zygote and the spare to be at rest", are_at_rest_while_the_worker_works)
    go(cluster)
    assert agent.wait() == 0, agent.err()
    cluster.nothing_left()


@pytest.mark.main_path
def test_a_spare_that_was_killed_is_replaced(cluster, tmp_path):
    agent, script = start(cluster, tmp_path)
    agent.says("1 spare workers? waits?")
    (spare,) = wait_for("the spare", lambda: spares_of(agent, script))
    os.kill(spare, signal.SIGKILL)
    wait_for("another spare", lambda: agent.err().count("1 spare worker waits") == 2)
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is warm" in agent.out()
    cluster.nothing_left()


def test_a_module_that_stands_in_front_of_an_installed_one_is_the_one(cluster, tmp_path):
    python, packages = python_of(tmp_path / "environment")
    (packages / "shadow.py").write_text("which = 'installed'\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shadow.py").write_text("which = 'own'\n")
    agent, _ = start(cluster, tmp_path, python=python, imports=textwrap.dedent(f"""
        sys.path.insert(0, {str(tmp_path / 'lib')!r})
        import shadow; print('it is the', shadow.which)"""))
    agent.says("1 spare workers? waits?")
    go(cluster)
    assert agent.wait() == 0, agent.err()
    assert "attempt 1 is warm" in agent.out()
    assert agent.out().count("it is the own") == 2
    cluster.nothing_left()
