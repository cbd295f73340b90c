"""tests/support/check_names.py: which names on a page are gone."""

import subprocess
import sys
from pathlib import Path

CHECK = Path(__file__).resolve().parents[1] / "support/check_names.py"


def found(tree, page):
    for name, text in {"launcher/log/mux.hpp": "struct log_mux { int node_timeout_us; };",
                       "launcher/README.md": page}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    subprocess.run(["git", "init", "-q", tree], check=True)
    run = subprocess.run([sys.executable, CHECK, tree], text=True, check=False,
                         stdout=subprocess.PIPE)
    *lines, _ = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0)
    return lines


def test_a_path_that_is_gone_is_named(tmp_path):
    page = "# A page\n\nSee `log/mux.hpp`, `log/box.hpp` and `launcher/box`.\n"
    assert found(tmp_path, page) == ["launcher/README.md:3: no such file: log/box.hpp",
                                     "launcher/README.md:3: no such file: launcher/box"]


def test_a_path_may_be_short(tmp_path):
    assert not found(tmp_path, "`mux.hpp`, `log/mux`, `launcher/log/`, `../launcher/README.md`")


def test_an_identifier_that_is_gone_is_named(tmp_path):
    assert found(tmp_path, "`log_mux` was `log_box`, `node_timeout` is 10 s") == [
        "launcher/README.md:1: no source has this name: log_box"]


def test_blocks_of_code_patterns_options_and_words_are_let_be(tmp_path):
    assert not found(tmp_path, "```\n`log_box`\n```\n`NAME_fuzz.cpp`, `launcher/...`, `--log-dir`, "
                               "`SIGTERM`, `.cu`, `/no_such/file.cpp`, `{rank}`, `box`")


def test_what_a_build_or_a_mutation_run_leaves_is_no_folder_of_the_tree(tmp_path):
    (tmp_path / "build-mutation").mkdir()
    assert not found(tmp_path, "see `build-mutation/survivors/3.diff` and `build/bin/ddprun`")
