"""Each option of the installed torchrun, in each way to write it: what the workers are given by
torchrun and by ddprun, variable by variable, which files are written, and what is printed.

The values are in torchrun_options.py, a row for each option.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from torch.distributed.argparse_util import check_env, env
from torch.distributed.run import get_args_parser
from torchrun_options import ALWAYS, ON_GPUS, ROWS, RUNS

from tests.support import pages
from tests.support.cluster import BIN, LIMIT, ROOT, Program
from tests.support.log_tree import files_below
from tests.support.ports import free_port

PROBE = Path(__file__).with_name("probe.py")
ACTIONS = {action.option_strings[-1].lstrip("-").replace("_", "-"): action
           for action in get_args_parser()._actions if action.dest != "help"
           and action.option_strings}
# An option that runs by its row here is accepted, and the help names it.
TAKEN = {name for name, row in ROWS.items() if row.values}
SPELLINGS = [text for action in ACTIONS.values() for text in action.option_strings]


def shortest(action):
    """Its letter, or the shortest beginning of its name that argparse accepts."""
    letters = [text for text in action.option_strings if len(text) == 2]
    name = action.option_strings[-1].replace("_", "-")
    beginnings = [name[:length] for length in range(3, len(name) + 1)]
    return letters[0] if letters else next(
        part for part in beginnings
        if [text.startswith(part) for text in SPELLINGS].count(True) == 1 or part == name)


def dashed(name, value):
    return [f"--{name}" if value is True else f"--{name}={value}"]


def underscored(name, value):
    return ["--" + name.replace("-", "_"), *([] if value is True else [value])]


def shortened(name, value):
    text = shortest(ACTIONS[name]) if name in ACTIONS else f"--{name}"
    joined = value is not True and text.startswith("--")
    return [f"{text}={value}"] if joined else [text, *([] if value is True else [value])]


# The fourth way uses PET_ variables for the options that have one, and the first way for the rest.
FORMS = {"dashes": dashed, "underscores": underscored, "shortened": shortened, "variables": dashed}


def typed(run, form, node, fills):
    """The command line and the variables of a node, from all rows that name this run."""
    line, variables = [], {}
    for name, row in ROWS.items():
        is_known = name in ACTIONS or (name == "use-env" and "launch" in run)
        if run not in row.values or not is_known:
            continue
        value = row.values[run]
        value = value[node] if isinstance(value, tuple) else value
        for what, with_what in fills.items():
            value = value if value is True else value.replace("{" + what + "}", with_what)
        # A pod's template may leave a variable empty: ddprun treats that as not set.
        by_variable = form == "variables" and value != ""
        if by_variable and isinstance(ACTIONS.get(name), (env, check_env)):
            variables["PET_" + name.replace("-", "_").upper()] = "1" if value is True else value
        else:
            line += FORMS[form](name, value)
    return line, variables


class Job:
    """A run by one of the launchers: what its workers were given, its files and its output."""

    def __init__(self, cluster, run, form, start, name, port):
        self.folder = cluster.folder / name
        self.folder.mkdir()
        shutil.copy(PROBE, self.folder)
        program = self.folder / "probe.py"
        program.write_text(f"#!{sys.executable}\n" + program.read_text().partition("\n")[2])
        program.chmod(0o755)
        (self.folder / "given").mkdir()
        nodes = []
        for node in range(RUNS[run].nodes):
            fills = {"folder": str(self.folder), "port": str(port)}
            line, variables = typed(run, form, node, fills)
            script = RUNS[run].script or program
            line += [script, "local=${local_rank}", "-x", self.folder / "given"]
            nodes.append(start(f"{name}-{node}", line,
                               {**RUNS[run].variables, **variables, "PYTHON_EXEC": sys.executable},
                               self.folder, nodes))
        self.codes = [node.wait(240) for node in nodes]
        self.errors = "\n".join(node.err() for node in nodes)
        self.given = {path.name: json.loads(path.read_text())
                      for path in (self.folder / "given").iterdir()}
        self.printed = [(shown(node.out()), shown(node.err())) for node in nodes]
        self.prefixed = Counter(line for node in nodes for line in node.out().splitlines()
                                if line.startswith("<"))
        self.places = list((self.folder / "logs").glob("*"))

    def without_places(self, text):
        for place in self.places:
            text = text.replace(str(place), "PLACE")
        return text.replace(str(self.folder), "FOLDER")

    def facts(self, rank, port):
        """The facts without the variables, and the variables."""
        facts = json.loads(self.without_places(json.dumps(self.given[rank])))
        variables = facts.pop("environment")
        if variables["MASTER_PORT"] != str(port):
            assert 0 < int(variables["MASTER_PORT"]) < 65536
            variables["MASTER_PORT"] = "a port"
        return facts, variables

    def files(self):
        """The files below the folders of the runs, by the workers that have them."""
        trees = []
        for place in self.places:
            assert place.name.startswith("job"), place
            trees.append(files_below(place))
        return sorted(trees, key=lambda tree: json.dumps(tree, sort_keys=True))


def shown(text):
    """The probes' lines, without any prefix, and without those that ddprun's box repeats."""
    return Counter(match[1] for match in
                   re.finditer(r"^(?!  \|).*?(\d+ (?:says|warns of) .*)$", text, re.M))


def run_both(cluster, torchrun, run, form):
    # The launchers run one after the other, so that each can have the port, which is compared, too.
    port = free_port()

    def start_ours(name, line, variables, folder, before):
        if before and run == "two nodes":
            before[0].says("here: node-0")
        named = ["--node-id", f"node-{len(before)}"] if RUNS[run].nodes == 2 else []
        return Program(cluster, name, [BIN / "ddprun", *named, *RUNS[run].ours, *line],
                       environment=variables, cwd=folder)

    def start_theirs(name, line, variables, folder, before):
        return torchrun.start(cluster, name, line, variables, folder, RUNS[run].module)

    ours = Job(cluster, run, form, start_ours, "ddprun", port)
    theirs = Job(cluster, run, form, start_theirs, "torchrun", port)
    assert set(ours.codes + theirs.codes) == {0}, ours.errors + theirs.errors
    return ours, theirs, port


@pytest.mark.parametrize("run, form", [(run, form) for run in RUNS for form in RUNS[run].forms])
def test_workers_are_given_what_torchrun_gives(cluster, torchrun, run, form):
    ours, theirs, port = run_both(cluster, torchrun, run, form)
    assert ours.given.keys() == theirs.given.keys() != set()
    for rank in ours.given:
        facts, variables = ours.facts(rank, port)
        their_facts, their_variables = theirs.facts(rank, port)
        others = {name for name in facts if facts[name] != their_facts[name]}
        assert others == RUNS[run].other_facts, (facts, their_facts)
        differ = {name: (variables.get(name), their_variables.get(name))
                  for name in {*variables, *their_variables}
                  if variables.get(name) != their_variables.get(name)}
        assert differ.keys() - ON_GPUS == ALWAYS | RUNS[run].differs, differ
    assert ours.printed == theirs.printed
    assert not theirs.prefixed - ours.prefixed
    assert ours.files() == theirs.files()


def ddprun(*words):
    return subprocess.run([BIN / "ddprun", *map(str, words)], capture_output=True, text=True,
                          timeout=LIMIT, check=False)


def test_each_option_of_the_installed_torchrun_has_a_row():
    assert not ACTIONS.keys() - ROWS.keys(), "a new PyTorch: give each option a row"
    tried = {name for name, row in ROWS.items() if row.values or row.refused}
    assert ROWS.keys() - tried == {"print-completion", "numa-binding"}


def test_each_option_but_those_that_are_refused_is_in_the_help():
    known = ddprun("--help").stdout
    assert {name for name in TAKEN if f"--{name}" in known} == TAKEN


def test_what_differs_on_purpose_is_in_the_readme():
    table = pages.section(pages.LAUNCHER, "Coming from torchrun")
    variables = ALWAYS.union(ON_GPUS, *(run.differs for run in RUNS.values()))
    for words in {row.differs for row in ROWS.values()} | variables:
        assert words in table, words


def test_each_test_that_the_page_names_exists():
    page = (ROOT / "tests/README.md").read_text()
    table = page[page.index("| what PyTorch's tests assert"):]
    named = {name for row in re.findall(r"^\|.*\|(.*)\|$", table, re.M)
             for name in re.findall(r"`([^`]+)`", row) if not name.startswith(("-", "TORCH"))}
    assert len(named) > 30
    tests = [name for file in (ROOT / "tests").glob("*/test_*.py")
             for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)]
    known = "\n".join([*tests, *RUNS, *FORMS, *ROWS])
    assert not {name for name in named if name not in known}


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.wrong])
def test_a_value_that_torchrun_refuses_is_refused_in_a_line(cluster, torchrun, name):
    row = ROWS[name]
    more = ["--node-rank=0"] if name.startswith("master") else []
    line = [f"--{name}={row.wrong}", *more, "--no-python", "/bin/true"]
    done = ddprun(*line)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
    assert done.stderr.startswith(f"ddprun: --{name}={row.wrong}"), done.stderr
    if name in ACTIONS:
        theirs = torchrun.start(cluster, "torchrun", line)
        assert theirs.wait() != 0, theirs.err()


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.refused])
def test_what_ddprun_does_not_have_is_refused_with_the_reason(name):
    done = ddprun(f"--{name}=node", "--no-python", "/bin/true")
    assert done.returncode == 2 and ROWS[name].refused in done.stderr, done


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_completion_has_every_option(shell):
    script = ddprun("--print-completion", shell).stdout
    assert {name for name in TAKEN if f"--{name}" in script} == TAKEN
