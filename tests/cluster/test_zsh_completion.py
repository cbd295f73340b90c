"""`--print-completion zsh` in a zsh with a terminal: what TAB makes of a person's line."""

import re
import shutil
import subprocess

import pytest

from tests.support.cluster import BIN, wait_for
from tests.support.terminal import Terminal

# Ctrl-X d writes the line to a file, Ctrl-X n the number of words to choose from.
SETUP = r"""
fpath=($PWD/functions $fpath)
autoload -Uz compinit && compinit -u -d $PWD/dump
PROMPT= ; setopt no_beep no_auto_list no_list_beep
tell() { print -r -- "$1" > answer.part && mv answer.part answer }
tell-line() { tell "$BUFFER"; BUFFER= }
zle -N tell-line; bindkey '^Xd' tell-line
count() { _main_complete; tell $compstate[nmatches]; compstate[insert]=; compstate[list]= }
zle -C count complete-word count; bindkey '^Xn' count
tell ready
"""


class Zsh:
    """A shell that has loaded the completion as it is installed for all users."""

    def __init__(self, cluster, folder):
        self.answer_file = folder / "answer"
        functions = folder / "functions"
        functions.mkdir()
        made = subprocess.run([BIN / "ddprun", "--print-completion", "zsh"], capture_output=True,
                              text=True, check=True)
        (functions / "_ddprun").write_text(made.stdout)
        self.options = re.findall(r"^  '(--[a-z-]+)", made.stdout, re.M)
        (folder / "setup").write_text(SETUP)
        self.terminal = Terminal(cluster, "zsh", ["zsh", "-f", "-i"], columns=200, cwd=folder,
                                 environment={"TERM": "dumb"})
        self.terminal.type(". ./setup\n")
        assert self.answer() == "ready"

    def answer(self):
        wait_for(f"zsh's answer; its screen: {self.terminal.text()}", self.answer_file.exists)
        text = self.answer_file.read_text().rstrip("\n")
        self.answer_file.unlink()
        return text

    def after_tab(self, line):
        self.terminal.type(line + "\t\x18d")
        return self.answer()

    def words(self, line):
        self.terminal.type(line + "\x18n")
        count = int(self.answer())
        self.terminal.type("\x18d")  # the line is empty again
        assert self.answer() == line
        return count

    def end(self):
        self.terminal.type("exit\n")
        return self.terminal.wait()


@pytest.fixture
def zsh(cluster, tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here: install zsh, as tests/setup does")
    (tmp_path / "logs").mkdir()
    (tmp_path / "train.py").touch()
    (tmp_path / "data.txt").touch()
    shell = Zsh(cluster, tmp_path)
    yield shell
    assert shell.end() == 0


def test_zsh_completes_options_their_words_and_files(zsh):
    for line, expected in [
        ("ddprun --nproc", "--nproc-per-node="),
        ("ddprun --standal", "--standalone "),
        ("ddprun --rdzv-backend=s", "--rdzv-backend=static "),
        ("ddprun --rdzv-backend s", "--rdzv-backend static "),
        ("ddprun --nnodes=2 --on-join=r", "--nnodes=2 --on-join=restart "),
        ("ddprun --log-dir=l", "--log-dir=logs/"),
        ("ddprun tr", "train.py "),
        ("ddprun --nnodes=2 train.py da", "--nnodes=2 train.py data.txt "),
    ]:
        assert zsh.after_tab(line) == f"ddprun {expected}"


def test_zsh_has_every_option_and_none_for_the_script(zsh):
    assert len(set(zsh.options)) == len(zsh.options) > 80
    assert zsh.words("ddprun --") == len(zsh.options)
    assert zsh.words("ddprun --rdzv-backend=") == 2
    # Words after the script belong to the script.
    assert zsh.words("ddprun train.py --n") == 0
    assert "command not found" not in zsh.terminal.text()
    assert "_arguments:" not in zsh.terminal.text(), zsh.terminal.text()
