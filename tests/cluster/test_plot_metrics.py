"""examples/plot_metrics.py draws each step as it was last done, and marks the restarts."""

import importlib.util
import json

import pytest

from tests.support.cluster import ROOT
from tests.support.needs import needs

needs("matplotlib", "./tests/setup installs it")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("plot_metrics",
                                                  ROOT / "examples" / "plot_metrics.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(restart, step):
    return {"time": 1, "event": "start", "restart": restart, "step": step}


def row(step, **numbers):
    return {"time": 2, "epoch": step // 10, "step": step, **numbers}


def drawn(script, path):
    """{name: (steps, values, steps of the marks)}"""
    figure = script.draw(*script.read(path), "title")
    parts = {}
    for part in figure.axes:
        line, *marks = part.get_lines()
        assert all(mark.get_linestyle() == "--" for mark in marks)
        parts[part.get_ylabel()] = (list(line.get_xdata()), list(line.get_ydata()),
                                    [mark.get_xdata()[0] for mark in marks])
        legend = part.get_legend()
        assert [text.get_text() for text in legend.get_texts()] == ["restart"] if marks \
            else legend is None
    assert figure.axes[-1].get_xlabel() == "step" and figure.axes[0].get_title() == "title"
    return parts


def write(path, *rows, cut=""):
    path.write_text("".join(json.dumps(each) + "\n" for each in rows) + cut)
    return path


def test_points_and_marks(script, tmp_path):
    path = write(tmp_path / "metrics.jsonl",
                 start(0, 0), row(10, loss=2.5, samples_per_second=100),
                 row(20, loss=2.0, samples_per_second=90), row(30, loss=1.0, samples_per_second=80),
                 start(1, 10), row(20, loss=1.9, samples_per_second=70),
                 row(30, loss=None, samples_per_second=60),
                 start(0, 20), row(30, loss=1.5, samples_per_second=50),
                 cut='{"time": 3, "epo')
    assert drawn(script, path) == {
        "loss": ([10, 20, 30], [2.5, 1.9, 1.5], [10, 20]),
        "samples per second": ([10, 20, 30], [100, 70, 50], [10, 20])}


def test_what_comes_after_the_snapshot_and_is_not_done_again_is_not_drawn(script, tmp_path):
    path = write(tmp_path / "metrics.jsonl", start(0, 0), row(10, loss=2.5), row(20, loss=2.0),
                 row(30, loss=1.0), start(1, 10), row(20, loss=1.9))
    assert drawn(script, path) == {"loss": ([10, 20], [2.5, 1.9], [10])}


def test_without_a_restart_nothing_is_marked(script, tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "metrics.jsonl", start(0, 0), row(10, loss=2.5))
    assert drawn(script, path) == {"loss": ([10], [2.5], [])}
    picture = tmp_path / "metrics.png"
    monkeypatch.setattr("sys.argv", ["plot_metrics.py", str(path), str(picture)])
    script.main()
    assert capsys.readouterr().out == f"1 point, 0 restarts: {picture}\n"
    assert picture.read_bytes().startswith(b"\x89PNG")
    write(path, start(0, 0))
    with pytest.raises(SystemExit, match="there are no numbers in it yet"):
        script.main()
