"""A module that was imported ahead becomes visible in a warm worker when its script imports it,
with everything that the import sets."""

import os
import signal
import textwrap

import pytest

from tests.support.warm_agent import ahead
from tests.support.warm_python import environment, learnt, make_agent, packages, script_of

SEEING = """
import importlib, importlib.util, sys
def of_kit():
    return sorted(name for name in sys.modules if name.startswith("kit")), \\
        sorted(name for name in vars(sys.modules.get("kit", sys)) if name.startswith("l"))
print(of_kit())
found = importlib.util.find_spec("kit")
print(found.origin, type(found.loader).__name__, found.submodule_search_locations, of_kit())
import kit
print(of_kit(), kit.__spec__.origin, type(kit.__loader__).__name__, kit.__spec__ is kit.__spec__)
print([found.loader.is_package("kit") if found.loader else None])
import decimal
from kit import lazy
print(of_kit(), lazy.deep.value, lazy.__name__, lazy is sys.modules["kit.lazy"])
try:
    import kit.missing
except ImportError as error:
    print(error, of_kit())
print(kit.late.value, of_kit())
print(importlib.import_module("kit.last").names, importlib.reload(kit.last).names is not None)
import pickle
print(pickle.loads(pickle.dumps(kit.last.Kind())).number, of_kit())
import sched
"""
KIT = {
    "__init__": "import sys\nfrom kit import first\n"
                "def __getattr__(name):\n"
                "    if name == 'late':\n        import kit.late\n        return kit.late\n"
                "    raise AttributeError(name)\n",
    "first": "pass\n", "lazy": "import kit.lazydeep as deep\n", "lazydeep": "value = 5\n",
    "late": "value = 7\n",
    "last": "import sys\nnames = sorted(n for n in sys.modules if n.startswith('kit'))\n"
            "class Kind:\n    number = 9\n",
}


@pytest.fixture
def kit(packages):
    (packages / "kit").mkdir()
    for name, text in KIT.items():
        (packages / "kit" / f"{name}.py").write_text(text)


def test_modules_appear_as_the_script_imports_them(make_agent, kit, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nis_warm = {ahead('kit', 'kit.late', 'decimal')}\n{SEEING}"
                      "print(is_warm, file=sys.stderr)\n")
    agent = make_agent([script])
    assert learnt(agent).endswith(" ")
    cold, warm = agent.cold(), agent.warm()
    assert (cold.err, warm.err) == ("False\n", "True\n")
    assert warm.out == cold.out and len(cold.out.splitlines()) == 9


@pytest.mark.parametrize("order", [
    ["last", "lazy"], ["late", "first"], ["lazydeep", "last", "late", "lazy"], []])
def test_imports_in_another_order_find_all_that_they_need(make_agent, kit, tmp_path, order):
    script = tmp_path / "script.py"
    script.write_text(f"import sys, os\nis_warm = {ahead('kit')}\n" + textwrap.dedent("""
        order = os.environ["ORDER"].split()
        for name in order:
            __import__("kit." + name)
        print(is_warm, [sys.modules["kit." + name].__spec__.name for name in order])
        print([name for name in order if getattr(sys.modules["kit"], name, 1) is not
               sys.modules["kit." + name]], flush=True)
        import sched"""))
    agent = make_agent([script])
    agent.rank_names.append("ORDER")
    agent.cold(is_recorded=True, ORDER="lazy late last")
    assert agent.load().startswith("ready ")
    cold, warm = (run(ORDER=" ".join(order)) for run in (agent.cold, agent.warm))
    assert (warm.status, warm.err, warm.reported) == (0, "", "")
    assert warm.out == cold.out.replace("False", "True")


SETTING = {
    "quiet": "import warnings\nwarnings.filterwarnings('ignore', 'a word')\n"
             "warnings.simplefilter('always', BytesWarning, append=True)\n",
    "loud": "import logging\nlogging.getLogger().addHandler(logging.NullHandler())\n"
            "logging.getLogger().setLevel(logging.DEBUG)\nlogging.lastResort = None\n",
    "hooking": "import sys, warnings\n"
               "sys.excepthook = lambda *words: print('the package:', words[1])\n"
               "warnings.formatwarning = lambda *words: 'formatted\\n'\n",
    "finding": "import sys\nclass Finder:\n    @staticmethod\n    def find_spec(*words):\n"
               "        return None\nsys.meta_path.insert(0, Finder)\n",
    "signalling": "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n",
}
LOOKING = """
import sys, signal, warnings
def settings():
    print([repr(one)[:60] for one in warnings.filters], sys.excepthook.__module__,
          warnings.formatwarning.__module__, signal.getsignal(signal.SIGUSR1),
          [one.__name__ for one in sys.meta_path if isinstance(one, type)])
    if "logging" in sys.modules:
        root = sys.modules["logging"].getLogger()
        print([type(one).__name__ for one in root.handlers], root.level,
              sys.modules["logging"].lastResort)
settings()
warnings.filterwarnings("error", "a word")
warnings.filterwarnings("default", "another", append=True)
import quiet
settings()
warnings.warn("a word")
signal.signal(signal.SIGUSR1, signal.default_int_handler)
import logging
logging.basicConfig(format="script: %(message)s", stream=sys.stdout)
settings()
import loud
settings()
logging.warning("said")
vars(sys)["excepthook"] = None
import hooking, finding, signalling, decimal
settings()
raise ValueError("the end")
"""


def test_what_imports_set_is_set_where_the_script_makes_them(make_agent, packages, tmp_path):
    for name, text in SETTING.items():
        (packages / f"{name}.py").write_text(text)
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nprint({ahead('decimal')}, file=sys.stderr)\n{LOOKING}")
    agent = make_agent([script])
    assert learnt(agent).endswith(" ")
    cold, warm = agent.cold(), agent.warm()
    assert (cold.err, warm.err) == ("False\n", "True\n")
    assert warm.out.splitlines() == cold.out.splitlines() and len(cold.out.splitlines()) == 10
    assert warm.status == cold.status == 1


def test_threads_that_import_at_once_find_each_module_once(make_agent, packages, tmp_path):
    for number in range(20):
        (packages / f"part{number}.py").write_text(
            "import builtins\nbuiltins.runs = getattr(builtins, 'runs', 0) + 1\n")
    agent = make_agent([script_of(tmp_path, """
        import builtins, decimal, threading
        names = [f"part{number}" for number in range(20)]
        all_there = threading.Barrier(8)
        def bring():
            all_there.wait()
            for name in names:
                __import__(name)
        threads = [threading.Thread(target=bring) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        print(is_warm, builtins.runs)
        import sched""")])
    learnt(agent)
    assert (agent.cold().out, agent.warm().out) == ("False 20\n", "True 20\n")
