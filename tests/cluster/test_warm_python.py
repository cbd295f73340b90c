"""The Python of warm workers by itself: a spare that runs the script behaves like a worker that was
started cold; if it cannot, it executes the command."""

import json
import os
import re
import shutil
import signal
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.support.cluster import ROOT
from tests.support.leaves import differing
from tests.support.warm_agent import ahead
from tests.support.warm_python import environment, learnt, make_agent, packages, script_of

PROBE = ROOT / "tests" / "support" / "warm_probe.py"
RUN_PATH = ("import runpy, sys; del sys.argv[0]; "
            "runpy.run_path(sys.argv[0], run_name=\"__main__\")")  # as ddprun does it
FORMS = {"script": [PROBE], "module": ["-m", "tests.support.warm_probe"],
         "run-path": ["-c", RUN_PATH, PROBE]}


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
    assert warm["is warm"] and not cold["is warm"]
    assert warm["python"]["meta_path"].pop(0) == "ImportedAhead"
    for when in ("modules at start", "modules"):
        assert sorted(set(cold[when]) ^ set(warm[when])) == [], when
    for part in ("system", "python"):
        assert not differing(cold[part], warm[part])
    for one, another in zip(warm["random"], other["random"]):
        assert one != another


def test_settings_of_python_by_its_variables_are_the_same(make_agent, tmp_path):
    (tmp_path / "go").touch()
    agent = make_agent([PROBE, "signal", "probe"], PYTHONFAULTHANDLER="1", PYTHONBREAKPOINT="0",
                       PYTHONTRACEMALLOC="2", PYTHONINTMAXSTRDIGITS="1000", PYTHONUTF8="1",
                       PYTHONIOENCODING="latin-1:replace", PYTHONNOUSERSITE="1", PYTHONSAFEPATH="1",
                       PYTHONDONTWRITEBYTECODE="1", PYTHONDEVMODE="1")
    learnt(agent)
    seen, ends = [], []
    for run in (agent.cold, agent.warm):
        ends.append(run(RANK="0", TORCHELASTIC_RESTART_COUNT="1"))
        ends[-1].err = re.sub("0x[0-9a-f]+", "0x", ends[-1].err)
        seen.append(json.loads((tmp_path / "probe.0.1.json").read_text()))
    cold, warm = seen
    assert warm["is warm"] and warm["python"]["meta_path"].pop(0) == "ImportedAhead"
    for part in ("system", "python"):
        assert not differing(cold[part], warm[part])
    assert ends[1] == ends[0] and "Fatal Python error: Segmentation fault" in ends[0].err


@pytest.mark.parametrize("how", ["exit", "text", "raise", "breakpoint", "hook", "signal",
                                 "thread"])
def test_a_script_ends_as_it_does(make_agent, tmp_path, how):
    (tmp_path / "go").touch()
    agent = make_agent([PROBE, how, "probe"])
    learnt(agent)
    cold, warm = (run(RANK="0", TORCHELASTIC_RESTART_COUNT="1") for run in (agent.cold, agent.warm))
    for one in (cold, warm):
        one.err = re.sub("0x[0-9a-f]+", "0x", one.err)
    assert warm == cold
    assert cold.status == {"exit": 7, "thread": 0, "signal": -signal.SIGSEGV}.get(how, 1)


def test_what_a_script_has_imported_is_known_though_it_was_killed(make_agent, tmp_path):
    agent = make_agent([script_of(tmp_path, """
        import decimal
        import os
        import sched
        import signal
        print("warm", is_warm, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)])
    ended = agent.cold(is_recorded=True)
    assert (ended.status, ended.out) == (-signal.SIGKILL, "warm False\n"), ended
    assert agent.load().startswith("ready ")
    assert agent.warm().out == "warm True\n"


def test_a_list_that_is_wrong_imports_nothing_that_is_not_installed(make_agent, packages, tmp_path):
    """Anything may have written it, because it lies in the user's cache."""
    own = tmp_path / "own"
    (own / "editable").mkdir(parents=True)
    touch = f"open({str(tmp_path / 'touched')!r}, 'w')\n"
    (own / "editable" / "__init__.py").write_text(touch)
    (own / "single.py").write_text(touch)
    (packages / "linked.pth").write_text(f"{own}\n")
    (packages / "wide").mkdir()
    (packages / "wide" / "__init__.py").write_text(f"__path__.append({str(own)!r})\n")
    agent = make_agent([script_of(tmp_path, "import decimal; print(is_warm)")])
    for line in ("I editable ", "I single ", "I single /usr/lib/python3/single.py", "I wide ",
                 "I wide.single ", "I ...", "I .", "I a..b ", "I editable.", "I \udcff ", "I ",
                 "X what", "", "I decimal"):
        with open(agent.record, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(line + "\n")
    assert agent.load().startswith("ready ")
    assert agent.warm().out == "True\n"
    assert not (tmp_path / "touched").exists()


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
    assert (ended.out, ended.reported) == ("the other\n", "the command differs")


def test_what_has_changed_is_started_cold(make_agent, packages, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os; print('one', os.environ.get('CHOSEN'))\n")
    agent = make_agent([script], CHOSEN="first")
    learnt(agent)
    ended = agent.warm(CHOSEN="second")
    assert ended.out == "one second\n"
    assert ended.reported == "CHOSEN has changed since the imports were made"
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


# A package that reads a variable while it is imported.
FIXING = "import os\nfixed = os.environ.get('CHOSEN')\n"


@pytest.mark.parametrize("way, seen", [
    ("os.environ['CHOSEN'] = 'now'", "now"), ("os.environ.setdefault('CHOSEN', 'now')", "first"),
    ("os.environ.update(CHOSEN='now')", "now"), ("os.environ.update({'CHOSEN': 'now'})", "now"),
    ("del os.environ['CHOSEN']", None), ("os.environ.pop('CHOSEN', None)", None),
    ("if __name__ == '__main__':\n    os.environ['CHOSEN'] = 'now'", "now"),
])
def test_what_the_script_sets_as_a_constant_is_set_ahead(make_agent, packages, tmp_path, way, seen):
    (packages / "fixing.py").write_text(FIXING)
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""\
        import sys, os, subprocess
        names = """ + f"{ahead('fixing')}, {ahead('decimal')}" + """
        with open("/proc/self/environ") as file:
            print(file.read().count("CHOSEN="))
        print(os.environ.get("CHOSEN"),
              subprocess.run(["sh", "-c", "echo $CHOSEN"], capture_output=True).stdout)
        """) + way + textwrap.dedent("""
        import fixing
        import decimal
        print(fixing.fixed, os.getenv("CHOSEN"), flush=True)
        subprocess.run(["sh", "-c", "echo $CHOSEN"])
        print(*names, file=sys.stderr)
        import sched
        """))
    agent = make_agent([script], CHOSEN="first")
    assert learnt(agent).endswith(" ")
    cold, warm = agent.cold(), agent.warm()
    assert (cold.err, warm.err) == ("False False\n", "True True\n")
    assert warm.out == cold.out and cold.out.splitlines()[2] == f"{seen} {seen}"


def test_what_a_module_of_ones_own_sets_as_a_constant_is_set_ahead(make_agent, packages, tmp_path):
    (packages / "fixing.py").write_text(FIXING)
    own = tmp_path / "mine.py"
    own.write_text("import os\nos.environ['CHOSEN'] = 'now'\n")
    agent = make_agent([script_of(tmp_path, """
        import mine, fixing, decimal
        print(is_warm, fixing.fixed)
        import sched""")])
    assert learnt(agent).endswith(" ")
    waiting = agent.spare()
    assert agent.warm().out == "True now\n"
    own.write_text("import os\nos.environ['CHOSEN'] = 'edited'\n")
    ended = agent.warm(waiting)
    assert ended.out == "False edited\n" and ended.reported.startswith(f"{own} has changed")


@pytest.mark.parametrize("way", [
    "os.environ['CHOSEN'] = str(os.getpid())",
    "if len(sys.argv) == 1:\n    os.environ['CHOSEN'] = '1'",
    "os.environ['CHOSEN'] = '1'\nif len(sys.argv) > 1:\n    os.environ['CHOSEN'] = '2'",
])
def test_nothing_is_imported_behind_what_may_differ(make_agent, tmp_path, way):
    script = tmp_path / "script.py"
    script.write_text(f"import sys, os, fractions\nis_warm = {ahead()}\n"
                      f"was_there = {ahead('csv')}\n" + way +
                      "\nimport csv\nimport sched\nprint(is_warm, was_there)\n")
    agent = make_agent([script])
    assert learnt(agent).endswith(" it has set CHOSEN")
    assert "I fractions" in agent.recorded() and "I csv" in agent.recorded()
    assert agent.warm().out == "True False\n"  # fractions imports decimal


def test_what_a_script_chooses_by_its_rank_does_not_end_the_list(make_agent, packages, tmp_path):
    (packages / "fixing.py").write_text("import os\nfixed = 'CUDA_VISIBLE_DEVICES' in os.environ\n")
    (packages / "careless.py").write_text("pass\n")
    agent = make_agent([script_of(tmp_path, """
        import os
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["RANK"]
        os.environ["NCCL_IB_HCA"] = "mlx5_" + os.environ["RANK"]
        import careless, decimal, fixing
        print(is_warm, fixing.fixed, os.environ["CUDA_VISIBLE_DEVICES"])
        import sched""")])
    agent.cold(is_recorded=True, RANK="3")
    assert agent.load() == "drop fixing reads CUDA_VISIBLE_DEVICES as it is imported"
    agent.begin_anew()
    agent.cold(is_recorded=True, RANK="3")
    assert agent.load(["fixing"]).endswith(" ")
    assert agent.warm(RANK="5").out == "True True 5\n"


def test_what_a_dropped_package_sets_for_cuda_does_not_end_the_list(make_agent, packages, tmp_path):
    """Lightning does so, and reads its rank while it is imported."""
    (packages / "fabric.py").write_text("""if True:
        import os
        rank = os.environ["RANK"]
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        """)
    (packages / "metrics.py").write_text("pass\n")
    agent = make_agent([script_of(tmp_path, f"""
        was_there = {ahead('metrics')}
        import fabric, metrics, decimal
        print(is_warm, was_there, fabric.rank)
        import sched""")])
    agent.cold(is_recorded=True, RANK="3")
    assert agent.load() == "drop fabric reads RANK as it is imported"
    agent.begin_anew()
    agent.cold(is_recorded=True, RANK="3")
    assert agent.load(["fabric"]).endswith(" ")
    assert agent.warm(RANK="5").out == "True True 5\n"


@pytest.mark.parametrize("change", [
    "base.rate = 2", "setattr(base, 'rate', 2)", "from base import Kind; Kind.rate = 2",
    "def change():\n    base.rate = 2\nchange()", "import mine",
])
def test_what_takes_copies_of_what_the_script_changes_is_imported_by_it(make_agent, packages,
                                                                       tmp_path, change):
    (packages / "base.py").write_text("rate = 1\nclass Kind:\n    rate = 1\n")
    (packages / "copying.py").write_text("import base\nrate = base.rate + base.Kind.rate\n")
    (tmp_path / "mine.py").write_text("import base\nbase.rate = 2\n")
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nis_warm = {ahead('decimal')}, {ahead('copying')}\n"
                      f"import decimal, base\n{change}\nimport copying\n"
                      "print(copying.rate)\nprint(is_warm, file=sys.stderr)\nimport sched\n")
    agent = make_agent([script])
    assert learnt(agent).endswith(" it may have changed a package that is installed")
    ended = agent.warm()
    assert (ended.out, ended.err) == ("3\n", "(True, False)\n")


def test_a_setting_of_a_package_is_no_change(make_agent, packages, tmp_path):
    (packages / "toolkit").mkdir()
    (packages / "toolkit" / "__init__.py").write_text("from toolkit import backends\n")
    (packages / "toolkit" / "backends.py").write_text("benchmark = False\n")
    agent = make_agent([script_of(tmp_path, """
        import toolkit
        toolkit.backends.benchmark = True
        import decimal
        print(is_warm)
        import sched""")])
    assert learnt(agent).endswith(" ")
    assert agent.warm().out == "True\n"


@pytest.mark.parametrize("text, why", [
    ("import threading, time\nthreading.Thread(target=time.sleep, args=(9999,), "
     "daemon=True).start()\n", "the imports have left threads running: 1"),
    ("import os\nheld = os.open('/dev/null', os.O_RDONLY)\n",
     "the imports have left a descriptor open: /dev/null"),
    ("import subprocess\nchild = subprocess.Popen(['sleep', '1'])\n",
     "the imports have left a child process"),
    ("import mmap\nheld = mmap.mmap(-1, 4096)\n",
     "the imports have left memory that forks would share: /dev/zero (deleted)"),
])
def test_what_must_not_be_forked_is_refused(make_agent, packages, tmp_path, text, why):
    (packages / "forbidden.py").write_text(text)
    agent = make_agent([script_of(tmp_path, "import forbidden, decimal")])
    agent.cold(is_recorded=True)
    assert agent.load().startswith(f"refused {why}")


# What a module can do to our own modules while the zygote imports it, to simulate a machine that is
# full.
FULL = """
import sys
checks = sys.modules.get("ddprun_zygote_checks")
if checks:
    checks.{name} = {path!r}
"""


def test_no_worker_is_forked_when_memory_is_short(make_agent, packages, tmp_path):
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal: 100 kB\nMemAvailable: 2 kB\n")
    (packages / "filling.py").write_text(FULL.format(name="_MEMORY_FILE", path=str(memory)))
    agent = make_agent([script_of(tmp_path, "import filling, decimal")])
    agent.cold(is_recorded=True)
    assert agent.load().startswith("short 0 MiB are left, and the imports hold ")


def test_memory_that_runs_short_later_makes_no_more_spares(make_agent, packages, tmp_path):
    memory = tmp_path / "meminfo"
    memory.write_text("MemAvailable: 100000000 kB\n")
    (packages / "filling.py").write_text(FULL.format(name="_MEMORY_FILE", path=str(memory)))
    agent = make_agent([script_of(tmp_path, "import filling, decimal; print(is_warm)")])
    learnt(agent)
    assert agent.warm().out == "True\n"
    memory.write_text("MemAvailable: 2 kB\n")
    agent.control.send(b"spare")
    assert agent.control.recv(4096).decode().startswith("short 0 MiB are left")


@pytest.mark.parametrize("most, high, cached, begin", [
    ("8388608", "max", 0, "short 0 MiB are left"), ("max", "8388608", 0, "short 0 MiB are left"),
    ("9000000000", "max", 0, "ready "), ("9000000000", "8388608", 0, "short 0 MiB are left"),
    # Its memory is full of cached files, which take no memory from processes.
    ("8000000000", "max", 7999000000, "ready "),
])
def test_the_limit_of_a_cgroup_is_a_limit_of_memory(make_agent, packages, tmp_path, most, high,
                                                    cached, begin):
    """Its folders and files are as a kernel shows them."""
    own = tmp_path / "cgroup"
    own.write_text("0::/job/step\n")
    root = tmp_path / "sys"
    for folder, values in (("job", (most, high)), ("job/step", ("max", "max"))):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in zip(("memory.max", "memory.high", "memory.current", "memory.stat"),
                              (*values, str(max(cached, 8380416)),
                               f"anon 5\ninactive_file {cached // 2}\n"
                               f"active_file {cached - cached // 2}")):
            (root / folder / name).write_text(text + "\n")
    (packages / "filling.py").write_text(FULL.format(name="_CGROUP_FILE", path=str(own))
                                         + f"    checks._CGROUPS = {str(root)!r}\n")
    agent = make_agent([script_of(tmp_path, "import filling, decimal")])
    agent.cold(is_recorded=True)
    assert agent.load().startswith(begin)


def test_what_waits_is_the_first_to_go_when_memory_runs_out(make_agent, tmp_path):
    """What it becomes is like other workers, whether it is warm or executes its command."""
    shown = "print(is_warm, open('/proc/self/oom_score_adj').read())"
    agent = make_agent([script_of(tmp_path, f"import decimal; {shown}")])
    learnt(agent)
    before = Path("/proc/self/oom_score_adj").read_text()
    spare = agent.spare()
    for pid in (agent.zygote.pid, spare[0]):
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    assert agent.warm(spare).out == f"True {before}\n"
    ended = agent.warm(PYTHONWARNINGS="ignore")
    assert ended.reported.startswith("PYTHONWARNINGS has changed")
    assert ended.out == f"False {before}\n"


# The driver's library, as far as it is used here.
DRIVER = "int cuDeviceGetCount(int* count) { *count = 0; return ANSWER; }\n"


@pytest.mark.parametrize("answer, begin", [
    (3, "ready "), (0, "refused the imports have initialized CUDA"),
    (100, "refused the imports have initialized CUDA")])
def test_imports_that_have_touched_cuda_are_not_forked(make_agent, packages, tmp_path, answer,
                                                      begin):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    library = tmp_path / "libcuda.so.1"
    (tmp_path / "driver.c").write_text(DRIVER.replace("ANSWER", str(answer)))
    subprocess.run([compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library,
                    tmp_path / "driver.c"], check=True)
    (packages / "touching.py").write_text(f"import ctypes\nctypes.CDLL({str(library)!r})\n")
    agent = make_agent([script_of(tmp_path, "import touching, decimal")])
    agent.cold(is_recorded=True)
    assert agent.load().startswith(begin)


# The library is called in each forked process.
AT_FORK = """
import os, signal, sys
checks = sys.modules.get("ddprun_zygote_checks")
if checks and "{what}" == "hang":  # the others have the time that a busy machine takes
    checks._CANARY_SECONDS = 1
def hang():
    while True:
        signal.pause()
def crash():
    os.kill(os.getpid(), signal.SIGSEGV)
def fail():
    raise FloatingPointError("the pool is gone")
os.register_at_fork(after_in_child={what})
"""


@pytest.mark.parametrize("what, why", [
    ("hang", "a forked child hangs for 1 s"), ("crash", "a forked child crashes"),
    ("fail", "a forked child fails: FloatingPointError('the pool is gone')")])
def test_imports_after_which_a_fork_does_not_live_are_not_forked(make_agent, packages, tmp_path,
                                                                what, why):
    (packages / "forking.py").write_text(AT_FORK.replace("{what}", what))
    agent = make_agent([script_of(tmp_path, "import forking, decimal")])
    assert agent.cold(is_recorded=True).status == 0
    assert agent.load() == f"refused {why}"


# It looks like numpy, with which a canary process computes.
COMPUTING = """
import os, signal, sys
checks = sys.modules.get("ddprun_zygote_checks")
if checks and "{what}" == "signal.pause()":
    checks._CANARY_SECONDS = 1
def ones(*words):
    {what}
"""


@pytest.mark.parametrize("what, why", [
    ("signal.pause()", "a forked child hangs for 1 s"),
    ("os.kill(os.getpid(), signal.SIGSEGV)", "a forked child crashes"),
    ("raise FloatingPointError('no')", "a forked child fails: FloatingPointError('no')")])
def test_a_canary_that_does_not_compute_is_the_last(make_agent, packages, tmp_path, what, why):
    (packages / "numpy.py").write_text(COMPUTING.replace("{what}", what))
    agent = make_agent([script_of(tmp_path, "import numpy, decimal")])
    agent.cold(is_recorded=True)
    assert agent.load() == f"refused {why}"


def test_what_reads_its_rank_is_dropped(make_agent, packages, tmp_path):
    (packages / "knowing.py").write_text("import os\nrank = os.environ.get('RANK')\n")
    agent = make_agent([script_of(tmp_path, "import decimal, knowing; "
                                            "print(is_warm, knowing.rank); import sched")])
    assert agent.cold(is_recorded=True, RANK="3").out == "False 3\n"
    assert agent.load() == "drop knowing reads RANK as it is imported"
    agent.begin_anew()
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
    (packages / "setting.py").write_text(
        "import os\nos.environ['SET_BY_IMPORT'] = 'yes'\nos.environ['CHOSEN'] += ' and more'\n"
        "del os.environ['UNWANTED']\nos.environ.setdefault('DEFAULT', 'of the package')\n")
    agent = make_agent([script_of(tmp_path, """
        import os, subprocess
        names = "SET_BY_IMPORT", "CHOSEN", "UNWANTED", "DEFAULT"
        def show():
            print([os.environ.get(name) for name in names], flush=True)
            subprocess.run(["sh", "-c", "echo $SET_BY_IMPORT, $CHOSEN, $UNWANTED, $DEFAULT"])
        show()
        import decimal, setting
        show()
        print(is_warm, file=sys.stderr)
        import sched""")], CHOSEN="this", UNWANTED="that")
    assert learnt(agent).endswith(" ")
    cold, warm = agent.cold(), agent.warm()
    assert (cold.err, warm.err) == ("False\n", "True\n")
    assert warm.out == cold.out and "yes, this and more, , of the package" in cold.out
    assert "[None, 'this', 'that', None]" in cold.out


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
