"""Random numbers, and what else differs between processes by chance or by rank: a warm worker has
what it would have if it were started cold, whatever its packages draw while they are imported."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.warm_agent import ahead
from tests.support.warm_python import environment, learnt, make_agent, packages, script_of


def test_a_module_that_draws_random_numbers_is_dropped(make_agent, packages, tmp_path):
    (packages / "drawing.py").write_text("import random\ndrawn = random.random()\n")
    agent = make_agent([script_of(tmp_path, """
        import random
        random.seed(7)
        import drawing, decimal
        print(is_warm, drawing.drawn, random.random())
        import sched""")])
    cold = agent.cold(is_recorded=True)
    assert agent.load() == "drop drawing draws random numbers as it is imported"
    agent.begin_anew()
    agent.cold(is_recorded=True)
    assert agent.load(["drawing"]).startswith("ready ")
    assert agent.warm().out == cold.out.replace("False", "True")


def test_a_package_that_seeds_leaves_the_same_numbers(make_agent, packages, tmp_path):
    (packages / "seeding.py").write_text("import random\nrandom.seed(7)\nrandom.random()\n")
    agent = make_agent([script_of(tmp_path, """
        import random
        random.random()
        import seeding, decimal
        print(is_warm, random.random(), random.gauss(0, 1))
        import sched""")])
    assert learnt(agent).endswith(" ")
    cold, warm = agent.cold(), agent.warm()
    assert warm.out == cold.out.replace("False", "True") and "True" in warm.out


@pytest.mark.parametrize("package, before, after", [
    ("seeding", "", "random.seed(5)"), ("rich.style", "random.seed(5)", ""),
    ("rich.style", "", "random.seed(5)")])
def test_what_only_another_rank_imports_leaves_the_numbers_alone(make_agent, packages, known,
                                                                tmp_path, package, before, after):
    """They stay the same until it is imported here as well, even if by a module that needs it."""
    (packages / "seeding.py").write_text("import random\nrandom.seed(7)\n")
    (packages / "needing.py").write_text(f"import {package}\n")
    agent = make_agent([script_of(tmp_path, f"""
        import os, random
        {before}
        if os.environ["RANK"] == "0":
            import {package}, colorsys
        {after}
        import fractions, decimal
        print(is_warm, random.random(), "{package}" in sys.modules)
        import needing
        print(random.random(), "{package}" in sys.modules)
        import sched""")])
    assert learnt(agent).endswith(" ")
    for rank in "10":
        assert agent.warm(RANK=rank).out == agent.cold(RANK=rank).out.replace("False", "True", 1)


def test_what_only_another_rank_imports_holds_back_nothing_else(make_agent, packages, known,
                                                               tmp_path):
    (packages / "setting.py").write_text("import os\nos.environ['SETTING'] = '1'\nLIST = []\n")
    (packages / "using.py").write_text(
        "def use():\n    import setting\n    setting.LIST.append(1)\nuse()\n")
    (packages / "table.py").write_text("TABLE = {}\n")
    (packages / "reading.py").write_text(
        "from table import TABLE\nimport sys\n"
        "def read():\n    return sys.modules['table'].TABLE\n")
    (packages / "only0.py").write_text("import rich.style\n")
    agent = make_agent([script_of(tmp_path, """
        import os, random
        if os.environ["RANK"] == "0":
            import table, setting, only0
        import using, reading
        print(is_warm, os.environ.get("SETTING"), "setting" in sys.modules, reading.read())
        print("rich.style" in sys.modules)
        import decimal, sched""")])
    assert learnt(agent).endswith(" ")
    for rank in "10":
        cold, warm = agent.cold(RANK=rank), agent.warm(RANK=rank)
        assert cold.status == 0 and "False 1 True {}" in cold.out
        assert warm.out == cold.out.replace("False", "True", 1)


def test_a_package_seeds_though_what_has_brought_the_generator_is_not_there(
        make_agent, packages, known, tmp_path):
    (packages / "seeding.py").write_text(
        "def seed_all():\n    import random\n    random.seed(7)\nseed_all()\n")
    (packages / "only0.py").write_text("import rich.style\n")
    agent = make_agent([script_of(tmp_path, """
        import os
        if os.environ["RANK"] == "0":
            import only0
        import seeding, decimal
        print(is_warm)
        import sched""")])
    assert learnt(agent).endswith(" ")
    for rank in "10":
        warm = agent.warm(RANK=rank)
        assert (warm.status, warm.out) == (0, "True\n"), warm.err


def test_a_folder_that_is_made_at_an_import_is_each_workers_own(make_agent, packages, tmp_path):
    (packages / "making.py").write_text("import tempfile\nfolder = tempfile.mkdtemp()\n")
    agent = make_agent([script_of(tmp_path, "import making, decimal, sched")])
    agent.cold(is_recorded=True)
    assert agent.load().startswith("drop making ")


@pytest.mark.parametrize("text", [
    "table = [random.random() for _ in range(60000)]", "random.seed(os.urandom(8))"])
def test_a_state_that_is_not_each_times_is_no_seed(make_agent, packages, tmp_path, text):
    (packages / "other.py").write_text(f"import os, random\n{text}\n")
    agent = make_agent([script_of(tmp_path, """
        import random, other, decimal
        print(is_warm)
        print(random.random(), file=sys.stderr)
        import sched""")])
    agent.cold(is_recorded=True)
    assert agent.load() == "drop other draws random numbers as it is imported"
    agent.end_zygote()
    assert agent.load(["other"]).endswith(" ")
    assert agent.warm().err != agent.warm().err


# numpy as far as a canary computes with it. The system supplies its seed, which has 53 bits.
TORCH = """
import os
class State(tuple):
    equal = tuple.__eq__
class Generator:
    def manual_seed(self, seed):
        self._state = State((seed, 0))
    def seed(self):
        self.manual_seed(int.from_bytes(os.urandom(6), "big") | 1 << 50)
    def initial_seed(self):
        return self._state[0]
    def get_state(self):
        return self._state
    def set_state(self, state):
        self._state = state
default_generator = Generator()
default_generator.seed()
manual_seed = default_generator.manual_seed
def rand():
    default_generator._state = State((default_generator._state[0], default_generator._state[1] + 1))
    return hash(default_generator._state)
class Tensor:
    def sum(self):
        return self
    exp = backward = sum
    def __matmul__(self, other):
        return self
    __mul__ = __matmul__
def ones(*sizes, **more):
    return Tensor()
"""


@pytest.mark.parametrize("text, is_seed", [
    ("", False), ("torch.manual_seed(0)", True), ("torch.manual_seed(1 << 40)", True),
    ("torch.manual_seed(0)\ntorch.rand()", True)])
def test_a_package_that_brings_torch_and_seeds_it(make_agent, packages, tmp_path, text, is_seed):
    (packages / "torch.py").write_text(TORCH)
    (packages / "bringing.py").write_text(f"import torch\n{text}\n")
    agent = make_agent([script_of(tmp_path, """
        import bringing, decimal, torch
        print(is_warm)
        print(torch.rand(), file=sys.stderr)
        import sched""")])
    agent.cold(is_recorded=True)
    assert agent.load_what_may_be().endswith(" ")
    ends = [agent.cold(), agent.warm(), agent.warm()]
    assert [end.out for end in ends] == ["False\n", "True\n", "True\n"]
    assert len({end.err for end in ends}) == (1 if is_seed else 3), ends


def test_a_package_that_brings_torch_and_draws_is_dropped(make_agent, packages, tmp_path):
    (packages / "torch.py").write_text(TORCH)
    (packages / "bringing.py").write_text("import torch\nname = torch.rand()\n")
    agent = make_agent([script_of(tmp_path, "import bringing, decimal, sched")])
    agent.cold(is_recorded=True)
    assert agent.load() == "drop bringing draws random numbers as it is imported"


def test_a_module_of_the_scripts_own_seeds_before_its_imports(make_agent, packages, tmp_path):
    (packages / "deriving.py").write_text("import random\nrandom.seed(random.random())\n")
    (tmp_path / "mine.py").write_text(
        "import random\nrandom.seed(5)\nimport deriving\nx = random.random()\n")
    agent = make_agent([script_of(tmp_path, """
        import mine, decimal
        print(is_warm, mine.x)
        import sched""")])
    cold = agent.cold(is_recorded=True)
    assert "R random deriving\n" in agent.recorded()
    assert agent.load_what_may_be().endswith(" ")
    assert agent.warm().out == cold.out.replace("False", "True")


def test_a_script_whose_imports_are_recorded_finds_random_as_always(make_agent, tmp_path):
    agent = make_agent([script_of(tmp_path, """
        class Old:  # as finders were before Python 3.4
            def find_module(self, name, path=None):
                return None
        sys.meta_path.append(Old())
        import importlib.util
        found = importlib.util.find_spec("random").loader
        print(len(found.get_source("random")), found.is_package("random"))
        import random
        print(type(random.__loader__), random.__spec__.loader is random.__loader__)
        print(sorted(vars(random)))""")])
    assert agent.cold(is_recorded=True).out == agent.cold().out != ""


# From a seed on, numbers are known in advance, whatever has set it.
@pytest.mark.parametrize("before", [
    "random.seed(7)", "random.setstate(random.Random(7).getstate())", "import seeding"])
@pytest.mark.parametrize("text", ["import random\ndrawn = random.random()\n",
                                  "import random\nrandom.seed(random.random())\n"])
def test_what_draws_from_a_seeded_generator_is_dropped(make_agent, packages, tmp_path, before,
                                                      text):
    (packages / "seeding.py").write_text("import random\nrandom.seed(9)\n")
    (packages / "drawing.py").write_text(text)
    agent = make_agent([script_of(tmp_path, f"""
        import random
        {before}
        import drawing, decimal
        print(is_warm, random.random())
        import sched""")])
    cold = agent.cold(is_recorded=True)
    assert "R random drawing\n" in agent.recorded()
    assert agent.load() == "drop drawing draws random numbers as it is imported"
    agent.end_zygote()
    assert agent.load(["drawing"]).endswith(" ")
    assert agent.warm().out == cold.out.replace("False", "True")


@pytest.mark.parametrize("first", ["import random, owning", "import owning, random"])
def test_generators_of_a_packages_own_are_each_workers_own(make_agent, packages, tmp_path, first):
    """sympy has such generators. Those for which the package has chosen the numbers are an
    exception."""
    (packages / "owning.py").write_text(
        "import random\nown, fixed, late = random.Random(), random.Random(3), random.Random()\n"
        "late.seed(4)\ndraw = own.random\n")
    agent = make_agent([script_of(tmp_path, f"""
        {first}
        import decimal
        print(is_warm, owning.fixed.random(), owning.late.random(), random.Random.seed.__module__)
        print(owning.draw(), file=sys.stderr)
        import sched""")])
    learnt(agent)
    cold, warm, other = agent.cold(), agent.warm(), agent.warm()
    assert warm.out == other.out == cold.out.replace("False", "True") and "True" in warm.out
    assert len({cold.err, warm.err, other.err}) == 3


def test_generators_whose_classes_have_a_seed_of_their_own(make_agent, packages, tmp_path):
    (packages / "owning.py").write_text("""
import random
class Named(random.Random):
    def seed(self, a=None, version=2, *, strict=False):
        super().seed(a, version)
class Keyed(random.Random):
    def __init__(self):
        super().seed()
    def seed(self, key):
        super().seed(key)
named, keyed = Named(), Keyed()
""")
    agent = make_agent([script_of(tmp_path, """
        import random, owning, decimal
        print(is_warm)
        print(owning.named.random(), file=sys.stderr)
        print(owning.keyed.random(), file=sys.stderr)
        import sched""")])
    learnt(agent)
    ends = [agent.cold(), agent.warm(), agent.warm()]
    assert [end.out for end in ends] == ["False\n", "True\n", "True\n"], ends
    for drawn in zip(*(end.err.splitlines() for end in ends)):
        assert len(set(drawn)) == 3, ends


@pytest.mark.parametrize("text", [
    "import copy, random\nown = copy.deepcopy(random.Random(3))\n",
    "import pickle, random\nown = pickle.loads(pickle.dumps(random.Random(3)))\n",
    "import random\nown = random.Random()\nown.setstate(random.Random(3).getstate())\n",
    "import random\nown = random.Random()\nname = own.random()\nown.seed(3)\n"])
def test_a_package_that_sets_or_uses_its_own_generators_is_dropped(make_agent, packages, tmp_path,
                                                                  text):
    """It cannot be known whether a state was chosen or is that of another generator, and a number
    may be kept."""
    (packages / "owning.py").write_text(text)
    agent = make_agent([script_of(tmp_path, """
        import random, owning, decimal
        print(is_warm, owning.own.random())
        import sched""")])
    cold = agent.cold(is_recorded=True)
    assert agent.load() == "drop owning draws random numbers as it is imported"
    agent.end_zygote()
    assert agent.load(["owning"]).endswith(" ")
    assert agent.warm().out == agent.warm().out == cold.out.replace("False", "True")


def test_what_draws_from_its_own_generators_and_keeps_nothing_is_known(make_agent, packages,
                                                                      tmp_path):
    (packages / "sympy" / "core").mkdir(parents=True)
    (packages / "sympy" / "__init__.py").write_text("import sympy.core.random\n")
    (packages / "sympy" / "core" / "__init__.py").touch()
    (packages / "sympy" / "core" / "random.py").write_text(
        "import random\n_assumptions_rng = random.Random()\n_assumptions_rng.shuffle([1, 2, 3])\n")
    (packages / "sympy" / "core" / "symbol.py").write_text(
        "import random\nclass Dummy:\n    _prng = random.Random()\n"
        "    _base_dummy_index = _prng.randint(10**6, 9*10**6)\n")
    agent = make_agent([script_of(tmp_path, """
        import random, sympy, sympy.core.symbol, decimal
        print(is_warm)
        print(sympy.core.symbol.Dummy._base_dummy_index, file=sys.stderr)
        print(sympy.core.random._assumptions_rng.random(), file=sys.stderr)
        import sched""")])
    assert learnt(agent).endswith(" ")
    ends = [agent.cold(), agent.warm(), agent.warm()]
    assert [end.out for end in ends] == ["False\n", "True\n", "True\n"]
    for drawn in zip(*(end.err.splitlines() for end in ends)):
        assert len(set(drawn)) == 3, ends


def test_a_package_that_asks_for_the_folder_of_temporary_files_is_ahead(make_agent, packages,
                                                                       tmp_path):
    (packages / "asking.py").write_text("import tempfile\nfolder = tempfile.gettempdir()\n")
    agent = make_agent([script_of(tmp_path, """
        import asking, decimal
        import tempfile
        print(is_warm)
        print(next(tempfile._get_candidate_names()), file=sys.stderr)
        import sched""")])
    assert learnt(agent).endswith(" ")
    ends = [agent.cold(), agent.warm(), agent.warm()]
    assert [end.out for end in ends] == ["False\n", "True\n", "True\n"]
    assert len({end.err for end in ends}) == 3


def test_what_packages_keep_of_random_is_what_it_is(make_agent, packages, tmp_path):
    (packages / "keeping.py").write_text(
        "import random\nseed = random.Random.seed\nclass Own(random.Random):\n    seed = seed\n"
        "own = Own()\nbound = own.seed\n")
    agent = make_agent([script_of(tmp_path, """
        import random, keeping, decimal
        print(is_warm, keeping.seed is random.Random.seed, keeping.seed.__qualname__)
        print(keeping.seed.__code__.co_filename, keeping.seed.__code__.co_consts)
        keeping.bound(3)
        print(keeping.own.random())
        import sched""")])
    assert learnt(agent).endswith(" ")
    assert agent.warm().out == agent.cold().out.replace("False", "True")


def test_of_several_packages_that_are_dropped_only_what_needs_them_goes(make_agent, packages,
                                                                       tmp_path):
    for name, text in {"knowing": "import os\nrank = os.environ.get('RANK')\n",
                       "drawing": "import random\ndrawn = random.random()\n",
                       "needing": "import knowing\n", "both": "import drawing, needing\n",
                       "free": "import fractions\n"}.items():
        (packages / f"{name}.py").write_text(text)
    agent = make_agent([script_of(tmp_path, f"""
        dropped = [{", ".join(map(ahead, ("knowing", "drawing", "needing", "both")))}]
        is_ahead = {ahead("free", "fractions", "random")}
        import both, free, decimal
        print(is_warm, is_ahead, dropped, both.needing.knowing.rank)
        import sched""")])
    agent.cold(is_recorded=True, RANK="3")
    assert agent.load_what_may_be().endswith(" ")
    assert agent.warm(RANK="4").out == f"True True {[False] * 4} 4\n"


@pytest.fixture
def with_numpy(packages):
    """Makes the numpy of these tests look installed there."""
    numpy = pytest.importorskip("numpy", reason="numpy is not installed here")
    installed = Path(numpy.__file__).parent

    def copy(source, target):
        try:
            os.link(source, target)
        except OSError:  # on another file system
            shutil.copy2(source, target)

    for folder in (installed, installed.with_name("numpy.libs")):
        if folder.exists():
            shutil.copytree(folder, packages / folder.name, copy_function=copy,
                            ignore=shutil.ignore_patterns("tests"))


def test_numbers_of_numpy_are_those_of_a_cold_start(make_agent, packages, with_numpy, tmp_path):
    (packages / "seeding.py").write_text("import numpy.random\nnumpy.random.seed(7)\n")
    agent = make_agent([script_of(tmp_path, """
        import numpy.random
        first = numpy.random.randint(1 << 60)
        import seeding, decimal
        print(is_warm, numpy.random.random(), numpy.random.normal())
        print(first, file=sys.stderr)
        import sched""")])
    assert learnt(agent).endswith(" ")
    cold, warm, other = agent.cold(), agent.warm(), agent.warm()
    assert warm.out == other.out == cold.out.replace("False", "True") and "True" in warm.out
    assert len({cold.err, warm.err, other.err}) == 3


@pytest.mark.parametrize("is_packages_own", [False, True])
def test_another_generator_in_the_place_of_numpys(make_agent, packages, with_numpy, tmp_path,
                                                  is_packages_own):
    text = "numpy.random.set_bit_generator(numpy.random.PCG64(3))"
    (packages / "putting.py").write_text(f"import numpy.random\n{text}\n")
    agent = make_agent([script_of(tmp_path, f"""
        import numpy.random
        {"import putting" if is_packages_own else text}
        import fractions, decimal
        print(is_warm, numpy.random.random())
        import sched""")])
    cold = agent.cold(is_recorded=True)
    assert cold.err == ""
    assert agent.load_what_may_be().endswith(" ")
    assert agent.warm().out == cold.out.replace("False", "True")


def test_what_draws_from_numpys_seeded_generator_is_dropped(make_agent, packages, with_numpy,
                                                           tmp_path):
    (packages / "drawing.py").write_text("import numpy.random\nnumpy.random.random(3)\n")
    agent = make_agent([script_of(tmp_path, """
        import numpy.random
        numpy.random.seed(7)
        import drawing, decimal
        print(is_warm, numpy.random.random())
        import sched""")])
    cold = agent.cold(is_recorded=True)
    assert "R numpy drawing\n" in agent.recorded()
    assert agent.load() == "drop drawing draws random numbers as it is imported"
    agent.end_zygote()
    assert agent.load(["drawing"]).endswith(" ")
    assert agent.warm().out == cold.out.replace("False", "True")


# rich, transformers, Lightning and torchmetrics do this.
KNOWN = {
    "rich/style.py": "from itertools import count\nfrom random import getrandbits\n"
                     "_id_generator = count(getrandbits(24))\n",
    "rich/console.py": "import rich.style\n",
    "transformers/utils/hub.py": "from uuid import uuid4\nSESSION_ID = uuid4().hex\n",
    "lightning/utilities.py": "def rank_zero_only(function):\n    pass\n",
    "lightning/fabric/utilities/rank_zero.py":
        "import os\nfrom lightning.utilities import rank_zero_only\n"
        "def _get_rank():\n"
        "    return int(os.environ['RANK']) if 'RANK' in os.environ else None\n"
        "rank_zero_only.rank = getattr(rank_zero_only, 'rank', _get_rank() or 0)\n",
    "torchmetrics/utilities/prints.py":
        "import os\ndef rank_zero_only(function):\n    pass\n"
        "rank_zero_only.rank = getattr(rank_zero_only, 'rank', "
        "int(os.environ.get('LOCAL_RANK', 0)))\n",
    "lightning/trainer.py": "import lightning.fabric.utilities.rank_zero, rich.console\n"
                            "import transformers.utils.hub, torchmetrics.utilities.prints\n",
}


@pytest.fixture
def known(packages):
    for name, text in KNOWN.items():
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.relative_to(packages).parents[:-1]:
            (packages / folder / "__init__.py").touch()


@pytest.mark.parametrize("seed", ["", "random.seed(7)"])
def test_what_known_packages_keep_is_each_workers_own(make_agent, packages, known, tmp_path, seed):
    agent = make_agent([script_of(tmp_path, f"""
        is_ahead = {ahead("rich.console", "lightning.trainer")}
        import random
        {seed}
        import lightning.utilities
        was_set = hasattr(lightning.utilities.rank_zero_only, "rank")
        import lightning.trainer, decimal, rich.style, transformers.utils.hub
        print(is_ahead)
        print(was_set, lightning.utilities.rank_zero_only.rank,
              lightning.trainer.torchmetrics.utilities.prints.rank_zero_only.rank)
        print(next(rich.style._id_generator), random.random(), sep="\\n")
        print(transformers.utils.hub.SESSION_ID)
        import sched""")])
    agent.rank_names.append("LOCAL_RANK")
    assert learnt(agent).endswith(" ")
    ends = [run(RANK="5", LOCAL_RANK="3").out.split("\n")
            for run in (agent.cold, agent.warm, agent.warm)]
    assert [end[0] for end in ends] == ["False", "True", "True"]
    assert [end[1] for end in ends] == ["False 5 3"] * 3
    for drawn in range(2, 4):
        assert len({end[drawn] for end in ends}) == (1 if seed else 3), ends
    assert len({end[4] for end in ends}) == 3


def test_a_known_package_that_does_otherwise_is_dropped(make_agent, packages, known, tmp_path):
    (packages / "rich" / "style.py").write_text(
        KNOWN["rich/style.py"] + "other = getrandbits(24)\n")
    (packages / "lightning" / "fabric" / "utilities" / "rank_zero.py").write_text(
        "import os\nrank = os.environ.get('RANK')\n")
    agent = make_agent([script_of(tmp_path, """
        import rich.console, lightning.fabric.utilities.rank_zero, decimal
        import sched""")])
    agent.cold(is_recorded=True)
    assert agent.load() == "drop rich draws random numbers as it is imported"
    agent.end_zygote()
    assert agent.load(["rich"]) == "drop lightning reads RANK as it is imported"
