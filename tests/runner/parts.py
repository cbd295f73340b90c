"""The parts that can be run, and their tiers: a row for each part."""

from dataclasses import dataclass
from pathlib import Path

PLAIN, ASAN, TSAN = "build", "build-asan", "build-tsan"
# Tests of many processes. Those of our programs wait for nine tenths of their time; those with
# PyTorch compute.
WAITING, TRAINING = "waiting", "training"
COMPUTING = "computing"  # one process each that computes for minutes
ALONE = "alone"  # when the other lanes are over
# The sanitizers' builds have no LibTorch, so their tests do not include those that load Python's.
WITHOUT_TORCH = ("--ignore-glob=*torch*",)
# Files of cluster with tests that train: by their names, or because they have the mark.
TRAINING_FILES = " ".join(sorted(
    f"cluster/{file.name}" for file in Path(__file__).resolve().parents[1].glob("cluster/test_*.py")
    if "torch" in file.name or "mark.trains" in file.read_text()))
# With a sanitizer, each program goes through its main paths once; `thorough` takes all paths.
MAIN_PATHS = (*WITHOUT_TORCH, "-m", "main_path")


@dataclass(frozen=True)
class Part:
    """`name` is what tests/run is told, `kind` how it is run:

    catch    `target` is a program of Catch2 in the build's bin/
    fuzz     each fuzz target replays its corpus, and mutations of it
    pytest   `target` is a folder or files (patterns, with blanks between) below tests/
    own      a function of special.py with this name

    `again`: its tests involve real processes, time or networks, so those that fail are tried again
    alone, except those that only compute (computing.py).
    `lane`: the parts of a lane run one after the other; parts without a lane run beside the lanes,
    as many at once as there are cores.
    `of`: the word that selects it, if that is another part's name.
    `apart`: it computes, and has its own share of the processors, beside other tests' agents.
    `quick`: it belongs to the first tier, which every change has to pass.
    `thorough`: it belongs to the second tier (most of the first does, too).
    """

    name: str
    kind: str
    target: str = ""
    build: str = PLAIN
    arguments: tuple = ()
    environment: tuple = ()
    again: bool = False
    lane: str = ""
    of: str = ""
    apart: bool = False
    quick: bool = True
    thorough: bool = True

    @property
    def word(self):
        """The word that selects it; all parts of one sanitizer share a word."""
        return self.of or self.build.partition("-")[2] or self.name


def sanitized(build):
    name = build.partition("-")[2]
    parts = [
        Part(f"{name}-unit", "catch", "unit_tests", build, again=True, apart=True),
        Part(f"{name}-process", "catch", "process_tests", build, again=True),
        Part(f"{name}-main-paths", "pytest", "cluster", build, MAIN_PATHS, again=True,
             lane=WAITING, thorough=False),
        Part(f"{name}-cluster", "pytest", "cluster", build, WITHOUT_TORCH, again=True,
             lane=WAITING, quick=False),
    ]
    if build == ASAN:  # TSan's build leaves out tests with one thread
        parts += [
            Part("asan-no-memory", "catch", "no_memory_tests", build, apart=True),
            Part("asan-fuzz", "fuzz", "fuzz", build, lane=COMPUTING, apart=True),
            # A mutant breaks something in the simulator, and the plain build shows that it is
            # found. (A filter that only excludes would include the hidden tests, too.)
            Part("asan-simulation", "catch", "simulation_tests", build, ("~[.]~mutant*",),
                 lane=COMPUTING, apart=True),
        ]
    return parts


PARTS = [
    Part("style", "own", build=""),
    Part("runner", "pytest", "runner", build=""),
    Part("unit", "catch", "unit_tests", again=True, apart=True),
    Part("process", "catch", "process_tests", again=True),
    Part("no-memory", "catch", "no_memory_tests", apart=True),
    Part("torch", "catch", "torch_tests", apart=True),
    Part("cluster", "pytest", "cluster", arguments=(*WITHOUT_TORCH, "-m", "not trains"), again=True,
         lane=WAITING),
    Part("cluster-torch", "pytest", TRAINING_FILES, arguments=("-m", "trains"), of="cluster",
         again=True, lane=TRAINING),
    Part("interop", "pytest", "interop", again=True, lane=TRAINING),
    Part("simulation", "catch", "simulation_tests", lane=COMPUTING, apart=True),
    Part("fuzz", "fuzz", "fuzz", lane=COMPUTING, apart=True),
    *sanitized(ASAN),
    *sanitized(TSAN),
    Part("slow", "pytest", "cluster", arguments=("-m", "slow"), again=True, lane=ALONE,
         quick=False, environment=(("DDPRUN_TEST_SLOW", "1"),)),
    Part("chaos", "pytest", "cluster/test_chaos.py", arguments=("--seconds", "300"), lane=ALONE,
         quick=False),
    Part("million", "catch", "simulation_tests", arguments=("random faults",), lane=COMPUTING,
         apart=True, quick=False, environment=(("DDPRUN_SIMULATION_SCHEDULES", "1000000"),)),
    Part("arithmetic", "own", lane=ALONE, quick=False),
    Part("mutation", "own", build="", lane=ALONE, quick=False),
    Part("versions", "own", build="", lane=ALONE, quick=False),
    Part("programs", "own", lane=ALONE, quick=False),
]
WORDS = list(dict.fromkeys(part.word for part in PARTS))  # each part also has its own name


def chosen(words):
    """The parts that these words select: no word selects the first tier, `thorough` the second."""
    if words == ["thorough"]:
        return [part for part in PARTS if part.thorough]
    if not words:
        return [part for part in PARTS if part.quick]
    return [part for part in PARTS if part.name in words or (part.word in words and part.quick)]


def effort(words):
    """How much of an exhaustive or randomised test is run for these words
    (tests/support/effort.hpp): `quick` if any of the parts belongs to the first tier."""
    parts = chosen(words)
    is_quick = words != ["thorough"] and any(part.quick for part in parts)
    return "quick" if is_quick else "thorough"
