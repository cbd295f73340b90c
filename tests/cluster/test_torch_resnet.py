"""examples/07_resnet_synthetic in each form in which people launch it, and its --resume: the C++
program and the PyTorch script have the same results."""

import os
import re
import signal

import pytest

from tests.support.cluster import Program, wait_for
from tests.support.gpus import ended_well, visible_gpus
from tests.support.ports import free_port
from tests.support.workload import LIMIT, PLACE, Workload, check_alike, lines_of

GPUS = visible_gpus()
EXAMPLE = Workload("resnet_synthetic", "07_resnet_synthetic", "resnet.py")
# With so few images training diverges at the usual learning rate, and the result is chance.
SMALL = ["--images", 64, "--test-images", 16, "--batch-size", 8, "--print-freq", 2,
         "--lr", 0.003]
SPAWNING = ["--multiprocessing-distributed", "--workers-per-node", 2, "--dist-url",
            "{master_url}", "--world-size", "{nnodes}", "--rank", "{group_rank}"]
FOUND = re.compile(r"Epoch: \[(\d+)\]\[\d+/\d+\] .* Loss ([\d.]+) \([\d.]+\)")


def without_times(lines):
    """The output, without what may differ between two equal runs."""
    return [re.sub(r"  (Time|Data) [\d.]+ \([\d.]+\)", "", line)
            for line in lines if "took" not in line]


def losses(lines):
    """The losses of all ranks after each epoch."""
    return {int(match[1]): float(match[2]) for match in map(FOUND.match, lines) if match}


@pytest.mark.parametrize("nodes", [[1], pytest.param([2], marks=pytest.mark.slow), [1, 1], [2, 3]])
def test_on_one_node_and_on_more(cluster, nodes):
    lines = EXAMPLE.run(cluster, "program", nodes, *SMALL, "--epochs", 2, "--images", 120)
    found = losses(lines)
    assert sorted(found) == [1, 2] and found[2] < 0.9 * found[1]
    assert sum("images/s" in line for line in lines) == 2


@pytest.mark.slow
def test_the_script_on_two_nodes_with_two_and_three_workers(cluster):
    lines = EXAMPLE.run(cluster, "python", [2, 3], *SMALL, "--epochs", 1)
    assert list(losses(lines)) == [1]


@pytest.mark.slow
def test_the_script_finds_the_same_with_ranks_told_by_arguments(cluster):
    ours = EXAMPLE.run(cluster, "program", [1, 1], *SMALL, "--epochs", 2, *PLACE)
    theirs = EXAMPLE.run(cluster, "python", [1, 1], *SMALL, "--epochs", 2, *PLACE)
    check_alike(without_times(theirs), without_times(ours))


def test_threads_that_load_images_change_nothing(cluster):
    alone = EXAMPLE.run(cluster, "program", [2], *SMALL, "--epochs", 2, "--workers", 0)
    loaded = EXAMPLE.run(cluster, "program", [2], *SMALL, "--epochs", 2, "--workers", 3)
    check_alike(without_times(loaded), without_times(alone))


def test_a_deep_one(cluster):
    few = ["--arch", "resnet50", "--images", 16, "--test-images", 5, "--batch-size", 8,
           "--epochs", 1, "--print-freq", 1, "--lr", 0.001]
    ours = without_times(EXAMPLE.run(cluster, "program", [1], *few))
    check_alike(without_times(EXAMPLE.run(cluster, "python", [1], *few)), ours)


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_script_that_spawns_its_workers_by_itself(cluster, nodes):
    usual = EXAMPLE.run(cluster, "program", [2] * nodes, *SMALL, "--epochs", 1)
    spawned = EXAMPLE.run(cluster, "python", [1] * nodes, *SMALL, "--epochs", 1, *SPAWNING)
    check_alike(without_times(spawned), without_times(usual))


@pytest.mark.slow
def test_a_spawned_worker_is_killed_and_the_job_goes_on(cluster, tmp_path):
    """The launcher sees only the process that it has started. That process ends with an error when
    one of its children has died, and is started again."""
    agent, = EXAMPLE.start(cluster, "python", [1], *SMALL, "--epochs", 6, "--resume",
                           tmp_path / "kept.pt", *SPAWNING, options=["--max-restarts", 1])
    wait_for("an epoch that is saved", (tmp_path / "kept.pt").exists, 240)
    spawned = [pid for pid, line in cluster.marked().items() if "spawn_main" in line]
    assert len(spawned) == 2
    os.kill(spawned[1], signal.SIGKILL)
    lines = lines_of([agent])
    assert re.search(r"code 1: .*(process \d terminated with signal SIGKILL|"
                     r"Connection (closed|reset) by peer)", agent.err())
    assert "restart 1 of 1" in agent.err()
    resumed, = [line for line in lines if line.startswith("resuming from")]
    first = int(resumed.split()[-1])
    assert first > 1 and max(losses(lines)) == 6


def test_by_hand(cluster):
    address = f"tcp://127.0.0.1:{free_port()}"
    lines = lines_of([Program(cluster, f"rank{rank}", EXAMPLE.by_hand(
        "program", *SMALL, "--epochs", 1, "--init-method", address, "--rank", rank,
        "--world-size", 2)) for rank in (1, 0)])
    assert list(losses(lines)) == [1]


@pytest.mark.parametrize("kind", ["program", pytest.param("python", marks=pytest.mark.slow)])
def test_goes_on_where_it_was(cluster, tmp_path, kind):
    whole = EXAMPLE.run(cluster, kind, [2], *SMALL, "--epochs", 3)
    kept = [*SMALL, "--resume", tmp_path / "kept"]
    EXAMPLE.run(cluster, kind, [2], *kept, "--epochs", 2)
    rest = EXAMPLE.run(cluster, kind, [2], *kept, "--epochs", 3)
    assert sum("resuming from" in line and "at epoch 3" in line for line in rest) == 1
    assert losses(rest) == {3: pytest.approx(losses(whole)[3], rel=0.005)}


@pytest.mark.slow
def test_goes_on_with_another_number_of_ranks(cluster, tmp_path):
    kept = ["--resume", tmp_path / "kept", "--epochs"]
    EXAMPLE.run(cluster, "program", [2], *SMALL, "--images", 240, *kept, 2)
    # Because nothing more is learnt, the loss shows which weights these are.
    still = [*SMALL, "--lr", 0]
    rest = EXAMPLE.run(cluster, "program", [3], *still, *kept, 3)
    assert sum("resuming from" in line and "at epoch 3" in line for line in rest) == 1
    fresh = EXAMPLE.run(cluster, "program", [3], *still, "--epochs", 1)
    assert list(losses(rest)) == [3] and losses(rest)[3] < 0.7 * losses(fresh)[1]


def test_a_snapshot_of_another_network_is_refused(cluster, tmp_path):
    kept = [*SMALL, "--images", 16, "--epochs", 1, "--resume", tmp_path / "kept"]
    EXAMPLE.run(cluster, "program", [1], *kept)
    other = cluster.agent("other", workers=1, nnodes=1, command=EXAMPLE.command(
        "program", *kept, "--arch", "resnet50"))
    assert other.wait() == 1
    assert "is of another model or optimizer" in other.err()


def test_an_image_that_is_too_small(cluster):
    one = Program(cluster, "alone", EXAMPLE.by_hand("program", "--image-size", 16))
    assert one.wait() == 2
    assert one.err() == ("resnet_synthetic: --image-size is '16': it must be a whole number of "
                         "at least 32; --help lists the options\n")


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
@pytest.mark.parametrize("kind", ["cuda", "python"])
def test_on_the_gpus_of_this_node(cluster, kind):
    lines = EXAMPLE.run(cluster, kind, [GPUS], *SMALL, "--epochs", 2, on_gpus=True)
    found = losses(lines)
    assert found[2] < 0.9 * found[1]


@pytest.mark.skipif(GPUS == 0, reason="no NVIDIA GPU is visible")
def test_ranks_on_gpus_do_without_gloo(cluster, tmp_path, monkeypatch):
    """Gloo would refuse to join on an interface that does not exist."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "not-here")
    for epochs in (1, 2):  # the second time each rank gets the snapshot over NCCL
        agent, = EXAMPLE.start(cluster, "cuda", [max(GPUS, 2)], *SMALL, "--epochs", epochs,
                               "--resume", tmp_path / "kept", on_gpus=True)
        ended_well(agent, LIMIT)
        assert list(losses(lines_of([agent]))) == [epochs]


@pytest.mark.skipif(GPUS > 0, reason="there is a GPU here")
def test_the_one_for_gpus_says_that_there_is_none(cluster):
    EXAMPLE.check_no_gpu(cluster)
