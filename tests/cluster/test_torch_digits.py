"""examples/06_digits in each form in which people launch it: losses differ between the ranks,
gradients do not, and the C++ program and the PyTorch script have the same results."""

import pytest

from tests.support.cluster import Program
from tests.support.ports import free_port
from tests.support.workload import (DIGITS, PLACE, Workload, check_alike, check_training,
                                    lines_of)

EXAMPLE = Workload("digits", "06_digits", "digits.py")
EPOCHS = 3

pytestmark = pytest.mark.skipif(not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")


@pytest.mark.parametrize("nodes", [[2], [1, 1], [2, 3]])
def test_on_one_node_and_on_more(cluster, nodes):
    lines = EXAMPLE.run(cluster, "program", nodes, "--epochs", EPOCHS)
    check_training(lines, EPOCHS, sum(nodes))
    assert len(lines) == EPOCHS * (sum(nodes) + 1)


@pytest.mark.parametrize("nodes", [[2], pytest.param([2, 3], marks=pytest.mark.slow)])
def test_the_script_on_one_node_and_on_two(cluster, nodes):
    check_training(EXAMPLE.run(cluster, "python", nodes, "--epochs", 1), 1, sum(nodes))


def test_the_script_finds_the_same_with_ranks_told_by_arguments(cluster):
    ours = EXAMPLE.run(cluster, "program", [1, 1], "--epochs", EPOCHS, *PLACE)
    check_training(ours, EPOCHS, 2)
    theirs = EXAMPLE.run(cluster, "python", [1, 1], "--epochs", EPOCHS, *PLACE)
    check_alike(theirs, ours)


def test_by_hand(cluster):
    address = f"tcp://127.0.0.1:{free_port()}"
    lines = lines_of([Program(cluster, f"rank{rank}", EXAMPLE.by_hand(
        "program", "--epochs", EPOCHS, "--data", DIGITS, "--init-method", address,
        "--rank", rank, "--world-size", 2)) for rank in (1, 0)])
    check_training(lines, EPOCHS, 2)


def test_a_learning_rate_below_zero(cluster):
    one = Program(cluster, "alone", EXAMPLE.by_hand("program", "--learning-rate", "-1"))
    assert one.wait() == 2
    assert one.err() == ("digits: --learning-rate is '-1': it must be a number, not below 0; "
                         "--help lists the options\n")
