"""examples/08_bert_classifier in each form in which people launch it: losses differ between the
ranks, gradients do not, and the C++ program and the PyTorch script have the same results."""

from pathlib import Path

import pytest

from tests.support.cluster import Program
from tests.support.gpus import ended_well, visible_gpus
from tests.support.ports import free_port
from tests.support.workload import LIMIT, PLACE, TOLERANCE, Workload, check_training, lines_of

GPUS = visible_gpus()
EXAMPLE = Workload("bert_classifier", "08_bert_classifier", "bert.py")
TEXTS = Path("/usr/share/common-licenses")
EPOCHS = 2

pytestmark = pytest.mark.skipif(not TEXTS.is_dir(), reason=f"no {TEXTS}: this is not Debian")


def nearly(found):
    return {epoch: {name: pytest.approx(value, **TOLERANCE)
                    for name, value in each.items()} for epoch, each in found.items()}


@pytest.mark.parametrize("nodes", [[1], pytest.param([2], marks=pytest.mark.slow), [1, 1], [2, 3]])
def test_on_one_node_and_on_more(cluster, nodes):
    lines = EXAMPLE.run(cluster, "program", nodes, "--epochs", EPOCHS)
    found = check_training(lines, EPOCHS, sum(nodes))
    # Five ranks make so few steps that all texts are classified as the most frequent class: 0.30.
    assert found[EPOCHS]["accuracy"] > 0.25
    assert sum("samples/s" in line for line in lines) == EPOCHS


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [[2], [2, 3]])
def test_the_script_on_one_node_and_on_two(cluster, nodes):
    check_training(EXAMPLE.run(cluster, "python", nodes, "--epochs", 1), 1, sum(nodes))


@pytest.mark.parametrize("extra", [
    [*PLACE, "--accumulate", 3, "--bf16-gradients"],
    pytest.param([], marks=pytest.mark.slow),
    pytest.param(["--size", "mini", "--epochs", 1, "--batch-size", 64], marks=pytest.mark.slow)],
    ids=["place, accumulated", "plain", "mini"])
def test_the_script_finds_the_same(cluster, extra):
    """The ranks come from arguments, or from the environment."""
    given = ["--epochs", EPOCHS, "--dropout", 0, *extra]
    epochs = 1 if "mini" in extra else EPOCHS
    ours = check_training(EXAMPLE.run(cluster, "program", [1, 1], *given), epochs, 2)
    theirs = check_training(EXAMPLE.run(cluster, "python", [1, 1], *given), epochs, 2)
    assert theirs == nearly(ours)


def test_by_hand(cluster):
    address = f"tcp://127.0.0.1:{free_port()}"
    lines = lines_of([Program(cluster, f"rank{rank}", EXAMPLE.by_hand(
        "program", "--epochs", 1, "--init-method", address, "--rank", rank,
        "--world-size", 2)) for rank in (1, 0)])
    check_training(lines, 1, 2)


def test_ranks_with_other_texts_are_named(cluster, tmp_path):
    for kind in ("one", "two"):
        (tmp_path / f"{kind}.txt").write_text((f"{kind} word after word\n" * 10 + "\n") * 30)
    address = f"tcp://127.0.0.1:{free_port()}"
    ranks = [Program(cluster, f"rank{rank}", EXAMPLE.by_hand(
        "program", "--data", data, "--init-method", address, "--rank", rank, "--world-size", 3))
        for rank, data in enumerate([TEXTS, TEXTS, tmp_path])]
    assert [rank.wait() for rank in ranks] == [1, 1, 1]
    assert ranks[2].err() == (f"bert_classifier: rank 2: the texts in {tmp_path} are not those "
                              "that rank 0 has; copy them from there\n")
    assert ranks[0].err() == "bert_classifier: another rank has other texts\n"


def refused(cluster, *arguments):
    one = Program(cluster, "alone", EXAMPLE.by_hand("program", *arguments))
    return one.wait(), one.err()


def test_bad_input(cluster, tmp_path):
    assert refused(cluster, "--size", "large") == (
        2, "bert_classifier: --size is 'large': it must be one of tiny, mini, small, medium, "
           "base; --help lists the options\n")
    assert refused(cluster, "--dropout", 1) == (
        2, "bert_classifier: --dropout must be less than 1; --help lists the options\n")
    alone = ["--init-method", f"tcp://127.0.0.1:{free_port()}", "--rank", 0, "--world-size", 1]
    assert refused(cluster, "--data", tmp_path / "none", *alone) == (
        1, f"bert_classifier: cannot read the folder {tmp_path}/none: No such file or directory; "
           "--data names another one\n")
    (tmp_path / "short.txt").write_text("too few words")
    assert refused(cluster, "--data", tmp_path, *alone) == (
        1, f"bert_classifier: {tmp_path} has 0 kinds of texts with a thousand words or more, and "
           "it takes two to tell apart; --data names another folder\n")


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
@pytest.mark.parametrize("kind", ["cuda", "python"])
def test_on_the_gpus_of_this_node(cluster, kind):
    lines = EXAMPLE.run(cluster, kind, [GPUS], "--epochs", EPOCHS, on_gpus=True)
    check_training(lines, EPOCHS, GPUS)


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_ranks_on_gpus_do_without_gloo(cluster, monkeypatch):
    """Gloo would refuse to join on an interface that does not exist."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "not-here")
    agent, = EXAMPLE.start(cluster, "cuda", [max(GPUS, 2)], "--epochs", EPOCHS, on_gpus=True)
    ended_well(agent, LIMIT)
    check_training(lines_of([agent]), EPOCHS, max(GPUS, 2))


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
def test_the_one_for_gpus_says_that_there_is_none(cluster):
    EXAMPLE.check_no_gpu(cluster)
