"""tests/support/check_messages.py: which words people do not have to read."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[1] / "support/check_messages.py"
PRIVATE = {
    "in a literal": ("a.cpp", 'say("node-b was fenced");', 1),
    "in the second of two lines": ("a.cpp", 'say("the workers of "\n    "an earlier life");', 1),
    "across two lines": ("a.cpp", 'say("this daemon stood "\n    "still for 5 s");', 1),
    "in Python": ("a.py", 'print(f"{node} obeyed its order")', 1)}
PLAIN = {
    "in a comment": ("a.cpp", '// "It was fenced."\nint fenced;'),
    "a word alone, of a protocol": ("a.cpp", 'on.word("fenced");'),
    "as a part of another word": ("a.cpp", 'say("a defenced host");'),
    "in documentation": ("a.py", '"""What was fenced."""\n\n\ndef f():\n    """Is fenced."""\n'),
    "across two statements": ("a.cpp", 'say("it stood ");\nsay("still here");')}


def check(tmp_path, name, text):
    (tmp_path / "launcher").mkdir()
    (tmp_path / "launcher" / name).write_text(text)
    return subprocess.run([sys.executable, CHECK, tmp_path], capture_output=True, text=True,
                          check=False)


@pytest.mark.parametrize("name, text, line", PRIVATE.values(), ids=PRIVATE.keys())
def test_a_private_word_in_a_message_is_named(tmp_path, name, text, line):
    done = check(tmp_path, name, text)
    assert done.returncode == 1
    assert done.stdout.startswith(f"launcher/{name}:{line}: "), done.stdout


@pytest.mark.parametrize("name, text", PLAIN.values(), ids=PLAIN.keys())
def test_other_text_may_have_it(tmp_path, name, text):
    done = check(tmp_path, name, text)
    assert (done.returncode, done.stdout) == (0, "1 files, 0 private words in messages\n")
