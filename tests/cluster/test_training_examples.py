"""What the examples and pages promise of training programs in C++: all that they repeat is in the
training loop."""

import re

import pytest

from tests.support.cluster import ROOT

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*/main.cpp")
                  if "torch::optim" in path.read_text())
SCREEN = 40  # lines


def test_some_train():
    assert {path.parent.name[:2] for path in EXAMPLES} >= {"01", "06", "07", "08"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_that_trains_leaves_the_rest_to_the_loop(path):
    text = path.read_text()
    assert "training_loop loop(" in text and "loop.run(" in text and "loop.status()" in text
    own = re.findall(r"snapshots::open|\.backward\(|\.(?:begin_)?save\(|zero_grad|optimizer\.step|"
                     r"save_emergency|\.warm_up", text)
    assert not own


def test_the_example_that_survives_is_short():
    assert len((ROOT / "examples/01_snapshot_resume/main.cpp").read_text().splitlines()) < 80


def test_the_program_on_the_page_is_one_screen_with_fault_tolerance_in_it():
    shown = re.search(r"\$ cat main.cpp\n(.*?)\n\$ cmake", (ROOT / "worker/README.md").read_text(),
                      re.S)[1]
    assert len(shown.splitlines()) <= SCREEN
    for part in ("run([]", "training_loop loop(", ".folder =", ".save =", "loop.status()"):
        assert part in shown


def test_the_example_with_images_loads_them_beside_the_training():
    text = (ROOT / "examples/07_resnet_synthetic/main.cpp").read_text()
    assert "loop.load_ahead(loader)" in text and "pinned_for(device" in text
    arguments = (ROOT / "examples/07_resnet_synthetic/arguments.hpp").read_text()
    assert int(re.search(r"workers = (\d+)", arguments)[1]) > 0
