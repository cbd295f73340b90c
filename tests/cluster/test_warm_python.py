"""The Python of warm workers by itself: a spare that runs the script is what a worker that was
started cold is, and where it cannot be it executes the command."""

import json
import os
import re
import signal
import subprocess
import textwrap

import pytest

from tests.support.cluster import ROOT
from tests.support.leaves import differing
from tests.support.warm_agent import WarmAgent, base_python

PROBE = ROOT / "tests" / "support" / "warm_probe.py"
RUN_PATH = ("import runpy, sys; del sys.argv[0]; "
            "runpy.run_path(sys.argv[0], run_name=\"__main__\")")  # as ddprun has it
FORMS = {"script": [PROBE], "module": ["-m", "tests.support.warm_probe"],
         "run-path": ["-c", RUN_PATH, PROBE]}


@pytest.fixture
def environment(tmp_path):
    """A Python of its own, in whose site-packages a test may install what it likes."""
    folder = tmp_path / "environment"
    subprocess.run([base_python(), "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return folder / "bin" / "python", packages


@pytest.fixture
def make_agent(environment, tmp_path):
    made = []

    def make(words, **more):
        own = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "RANK", "TORCHELASTIC_RESTART_COUNT")}
        made.append(WarmAgent(environment[0], words, {
            **own, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", "PYTHONHASHSEED": "1",
            "DDPRUN_TEST_CONTROL": str(tmp_path), **more}))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.fixture
def packages(environment):
    return environment[1]


def learnt(agent):
    first = agent.cold(is_recorded=True, RANK="0", TORCHELASTIC_RESTART_COUNT="0")
    answer = agent.load()
    assert answer.startswith("ready "), (answer, first)
    return answer


@pytest.mark.parametrize("path", [None, "", "/nowhere:/at/all"])
@pytest.mark.parametrize("form", FORMS)
def test_a_script_sees_no_difference(make_agent, tmp_path, monkeypatch, form, path):
    monkeypatch.chdir(ROOT)
    (tmp_path / "go").touch()
    words = [*FORMS[form], "well", "probe", "an argument", "", "-x"]
    agent = make_agent(words, **({} if path is None else {"PYTHONPATH": path}))
    learnt(agent)
    ends, seen = [], []
    for run in (agent.cold, agent.warm, agent.warm):
        ends.append(run(RANK="7", TORCHELASTIC_RESTART_COUNT="1"))
        seen.append(json.loads((tmp_path / "probe.7.1.json").read_text()))
    assert ends[1:] == [ends[0]] * 2 and ends[0].status == 0
    cold, warm, other = seen
    assert "decimal" in warm["modules at start"] and "decimal" not in cold["modules at start"]
    assert cold["modules"] == warm["modules"]
    for part in ("system", "python"):
        assert not differing(cold[part], warm[part])
    for one, another in zip(warm["random"], other["random"]):
        assert one != another


@pytest.mark.parametrize("how", ["exit", "text", "raise", "hook", "signal", "thread"])
def test_a_script_ends_as_it_does(make_agent, tmp_path, how):
    (tmp_path / "go").touch()
    agent = make_agent([PROBE, how, "probe"])
    learnt(agent)
    cold, warm = (run(RANK="0", TORCHELASTIC_RESTART_COUNT="1") for run in (agent.cold, agent.warm))
    for one in (cold, warm):
        one.err = re.sub("0x[0-9a-f]+", "0x", one.err)
    assert warm == cold
    assert cold.status == {"exit": 7, "thread": 0, "signal": -signal.SIGSEGV}.get(how, 1)


def test_arguments_may_differ_and_the_script_may_not(make_agent, tmp_path):
    script = tmp_path / "show.py"
    script.write_text("import sys; print(sys.argv, sys.orig_argv[2:], sep='\\n')\n"
                      "print(open('/proc/self/cmdline').read().split('\\0')[2:])\n")
    agent = make_agent([script, "--rank=0"])
    learnt(agent)
    other = [*agent.command[:3], "--rank=1", "more and longer"]
    ended = agent.warm(command=other)
    words = [str(script), "--rank=1", "more and longer"]
    assert ended.out.splitlines() == [str(words), str(words), str([*words, ""])]
    assert ended.reported == ""
    (tmp_path / "other.py").write_text("print('the other')")
    ended = agent.warm(command=[*agent.command[:2], str(tmp_path / "other.py")])
    assert (ended.out, ended.reported) == ("the other\n", "the command is another")


def test_what_has_changed_is_started_cold(make_agent, packages, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os; print('one', os.environ.get('CHOSEN'))\n")
    agent = make_agent([script], CHOSEN="first")
    learnt(agent)
    ended = agent.warm(CHOSEN="second")
    assert ended.out == "one second\n"
    assert ended.reported == "CHOSEN is another than when the imports were made"
    (packages / "new-1.0.dist-info").mkdir()
    assert agent.warm().reported == f"{packages} has changed since the imports were made"
    (packages / "new-1.0.dist-info").rmdir()


def test_an_edited_script_is_started_cold(make_agent, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('one')\n")
    agent = make_agent([script])
    learnt(agent)
    waiting = agent.spare()
    script.write_text("print('another')\n")
    ended = agent.warm(waiting)
    assert ended.out == "another\n"
    assert ended.reported == f"{script} has changed since the imports were made"


def script_of(tmp_path, text):
    script = tmp_path / "script.py"
    script.write_text("import sys\nis_warm = 'decimal' in sys.modules\n" + textwrap.dedent(text))
    return script


def test_nothing_is_imported_behind_what_the_script_sets(make_agent, tmp_path):
    agent = make_agent([script_of(tmp_path, """
        import os, fractions
        os.environ["CHOSEN"] = "1"
        import csv
        import sched
        print(is_warm, "csv" in sys.modules)""")])
    assert learnt(agent).endswith(" CHOSEN")
    assert "I fractions" in agent.recorded() and "I csv" in agent.recorded()
    assert agent.warm().out == "True True\n"  # fractions imports decimal; csv is the script's


@pytest.mark.parametrize("text, why", [
    ("import threading, time\nthreading.Thread(target=time.sleep, args=(9999,), "
     "daemon=True).start()\n", "the imports have left threads running: 1"),
    ("import os\nheld = os.open('/dev/null', os.O_RDONLY)\n",
     "the imports have left a descriptor open: /dev/null"),
    ("import subprocess\nchild = subprocess.Popen(['sleep', '1'])\n",
     "the imports have left a child process"),
])
def test_what_must_not_be_forked_is_refused(make_agent, packages, tmp_path, text, why):
    (packages / "forbidden.py").write_text(text)
    agent = make_agent([script_of(tmp_path, "import forbidden, decimal")])
    agent.cold(is_recorded=True)
    assert agent.load().startswith(f"refused {why}")


def test_what_reads_its_rank_is_dropped(make_agent, packages, tmp_path):
    (packages / "knowing.py").write_text("import os\nrank = os.environ.get('RANK')\n")
    agent = make_agent([script_of(tmp_path, "import decimal, knowing; "
                                            "print(is_warm, knowing.rank); import sched")])
    assert agent.cold(is_recorded=True, RANK="3").out == "False 3\n"
    assert agent.load() == "drop knowing reads RANK as it is imported"
    agent.close()
    agent.zygote, agent.files = None, []
    agent.record = agent.memory_file(b"")
    agent.cold(is_recorded=True, RANK="3")
    assert agent.load(["knowing"]).startswith("ready ")
    assert agent.warm(RANK="4").out == "True 4\n"


def test_modules_of_the_scripts_own_are_read_again(make_agent, packages, tmp_path):
    (packages / "shadow.py").write_text("which = 'installed'\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shadow.py").write_text("which = 'own'\n")
    (tmp_path / "mine.py").write_text("text = 'one'\n")
    agent = make_agent([script_of(tmp_path, f"""
        import decimal, mine
        sys.path.insert(0, {str(tmp_path / 'lib')!r})
        import shadow
        print(is_warm, mine.text, shadow.which)
        import sched""")])
    learnt(agent)
    (tmp_path / "mine.py").write_text("text = 'another'\n")
    assert agent.warm().out == "True another own\n"


def test_what_an_import_sets_is_set(make_agent, packages, tmp_path):
    (packages / "setting.py").write_text("import os\nos.environ['SET_BY_IMPORT'] = 'yes'\n")
    agent = make_agent([script_of(tmp_path, """
        import decimal, setting, os, subprocess
        print(is_warm, os.environ["SET_BY_IMPORT"], flush=True)
        subprocess.run(["sh", "-c", "echo $SET_BY_IMPORT"])""")])
    assert learnt(agent).endswith(" ")
    assert agent.warm().out == "True yes\nyes\n"


def test_a_spare_ends_with_its_agents_word(make_agent, tmp_path):
    agent = make_agent([script_of(tmp_path, "import decimal")])
    learnt(agent)
    pid, orders = agent.spare()
    orders.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_sitecustomize_of_ones_own_is_not_forked(make_agent, tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import builtins; builtins.customized = 1\n")
    agent = make_agent([script_of(tmp_path, "print(customized)")], PYTHONPATH=str(folder))
    assert agent.cold(is_recorded=True).out == "1\n"
    assert "may change how Python starts" in agent.load()
