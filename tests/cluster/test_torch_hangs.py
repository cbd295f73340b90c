"""Hangs of PyTorch's DistributedDataParallel over Gloo on nodes of one rank each."""

import textwrap

import pytest

from tests.cluster.test_hangs import LIMIT, TRAINS
from tests.cluster.test_hangs_across import nodes
from tests.support.needs import needs
from tests.support.standing_script import line_of


@pytest.mark.parametrize(("count", "stands"), [
    (2, 1), pytest.param(3, 0, marks=pytest.mark.slow)])
def test_nodes_that_train_with_gloo_wait_for_the_one_in_its_forward(cluster, tmp_path, count,
                                                                    stands):
    needs("torch", "PyTorch is not installed here")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAINS).format(last="dist.barrier()").replace(
        "get_rank() == 1", f"get_rank() == {stands}"))
    _, agents = nodes(cluster, count, script, "--hang-timeout", 10)
    line = line_of(script, "sleep(3600)")
    for agent in agents:
        assert agent.wait(LIMIT) == 0, agent.err()
        assert "attempt 1 has ended well" in agent.out()
        assert (f"rank {stands} (local rank 0) hung: no rank of this run has moved for "
                in agent.err())
        assert f"rank {stands} stood in forward (train.py:{line}) while rank" in agent.err()
        assert "waited in backward, <module>" in agent.err()
    cluster.nothing_left(but=cluster.programs[:1])
