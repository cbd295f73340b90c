"""What becomes of a script's arguments, compared with Python's string.Template, which torchrun
uses."""

import itertools
import json
import re
import string
import subprocess
import sys

import pytest

from tests.support.cluster import BIN

WORDS = ["$", "{", "}", "rank", "local_rank", "_", "=1"]
LENGTH = 5
# Braces without a $ before them, around a name of ours.
OURS = re.compile(r"\{(rank|local_rank)\}")
PRINT = "import json, sys; print(json.dumps(sys.argv[1:]))"


def arguments():
    found = {"".join(words) for count in range(1, LENGTH + 1)
             for words in itertools.product(WORDS, repeat=count)}
    return sorted(found)


def seen_by_a_worker(cluster, given, *options):
    # A command line may have 2 MB, including a pointer for each argument.
    seen = []
    for first in range(0, len(given), 8000):
        part = given[first:first + 8000]
        agent = cluster.agent("", *options, command=["--no-python", sys.executable, "-c", PRINT,
                                                     *part])
        assert agent.wait() == 0, agent.err()
        seen += json.loads(agent.out())
    assert len(seen) == len(given)
    return dict(zip(given, seen))


def template(argument):
    return string.Template(argument).safe_substitute(local_rank="0")


def test_as_torchrun_has_it_every_argument_is_pythons_template(cluster):
    seen = seen_by_a_worker(cluster, arguments(), "--placeholders", "torchrun")
    wrong = {given: (got, template(given)) for given, got in seen.items() if got != template(given)}
    assert not wrong, f"{len(wrong)} of {len(seen)}: {dict(list(wrong.items())[:10])}"


def test_what_names_no_placeholder_of_ours_is_pythons_template(cluster):
    given = [each for each in arguments() if not OURS.search(each)]
    assert len(given) > 10000
    given += ["hydra.run.dir=${hydra:runtime.cwd}/${oc.env:RANK}", "a.b=${rank}", "x=$${rank}",
              "${{ matrix.rank }}", "{{ rank }}", '{"a": {"b": [1, {}]}}', "{}", "{0}", "%{rank"]
    seen = seen_by_a_worker(cluster, given)
    wrong = {each: (got, template(each)) for each, got in seen.items() if got != template(each)}
    assert not wrong, f"{len(wrong)} of {len(seen)}: {dict(list(wrong.items())[:10])}"


@pytest.mark.parametrize("given, expected", [
    ("{rank}", "0"), ("{{rank}}", "{rank}"), ("${rank}", "${rank}"), ("$${rank}", "${rank}"),
    ("${local_rank}", "0"), ("$${local_rank}", "${local_rank}"), ('{"rank":{rank}}', '{"rank":0}'),
])
def test_placeholders_of_ours_are_braces_without_a_dollar(cluster, given, expected):
    assert seen_by_a_worker(cluster, [given]) == {given: expected}


def completed(tmp_path, *words):
    """What bash offers as completions of the last word."""
    script = subprocess.run([BIN / "ddprun", "--print-completion", "bash"], capture_output=True,
                            text=True, check=True).stdout
    (tmp_path / "completion").write_text(script)
    ask = ('source ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ddprun; '
           'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", ask, "bash", *words], capture_output=True, text=True,
                          check=True, cwd=tmp_path)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_options_their_words_and_files(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "train.py").touch()
    assert completed(tmp_path, "ddprun", "--nproc") == {"--nproc-per-node"}
    assert completed(tmp_path, "ddprun", "--rdzv-backend", "") == {"c10d", "static"}
    assert completed(tmp_path, "ddprun", "--on-join", "=", "r") == {"restart"}
    assert completed(tmp_path, "ddprun", "--log-dir", "=") == {"logs"}
    assert completed(tmp_path, "ddprun", "tr") == {"train.py"}


@pytest.mark.parametrize("how", [["--run-path"], ["--pass-local-rank"], []])
def test_the_script_sees_its_own_name_and_its_arguments(cluster, tmp_path, how):
    script = tmp_path / "train.py"
    script.write_text("import json, sys; print(json.dumps([__name__, *sys.argv]))")
    agent = cluster.agent("", *how, command=[script, "--", "-x", "--local-rank=7"])
    assert agent.wait() == 0, agent.err()
    local_rank = ["--local-rank=0"] if how == ["--pass-local-rank"] else []
    assert json.loads(agent.out()) == ["__main__", str(script), *local_rank, "-x",
                                       "--local-rank=7"]
