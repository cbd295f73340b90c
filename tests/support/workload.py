"""One example as users start it, on several nodes: the C++ program, its variant for GPUs, or the
PyTorch script. GPUs are hidden unless a test asks for them, so that ranks do not share one by
accident."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, ROOT
from tests.support.gpus import on_one_gpu, visible_gpus

DIGITS = Path(os.environ.get("DDPRUN_DIGITS", ROOT / ".cache" / "digits.csv"))
LIMIT = 240
# For each rank. With more threads than cores, a thread that waits for others must not spin on the
# core that they need, or a step would take minutes.
THREADS = {"OMP_NUM_THREADS": os.environ.get("DDPRUN_TEST_THREADS", "1"),
           "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
# The order of a sum depends on the alignment of memory and the splitting of loops, and later
# results carry the difference on.
TOLERANCE = {"rel": 0.02, "abs": 0.02}
PLACE = ["--init-method", "{master_url}", "--rank", "{rank}",
         "--world-size", "{world_size}"]


class Workload:
    def __init__(self, name, folder, script):
        self.program = BIN / name
        self.script = ROOT / "examples" / folder / script

    def command(self, kind, *arguments):
        """The command after the launcher's options."""
        if kind == "python":
            pytest.importorskip("torch", reason="PyTorch is not installed here")
            return [self.script, *arguments]
        program = self.program
        if kind == "cuda":
            program = program.with_name(f"{program.name}_cuda")
        if not program.exists():
            pytest.skip(f"{program.name} is not built: LibTorch is not here, or has no CUDA")
        return ["--no-python", program, *arguments]

    def by_hand(self, kind, *arguments):
        """The command without a launcher."""
        threads = [f"{name}={value}" for name, value in THREADS.items()]
        return ["env", *threads, *([sys.executable] if kind == "python" else []),
                *self.command(kind, *arguments)[-len(arguments) - 1:]]

    def run(self, cluster, kind, nodes, *arguments, on_gpus=False):
        """Runs it and returns the sorted lines of all nodes. `nodes` lists their numbers of
        workers."""
        return lines_of(self.start(cluster, kind, nodes, *arguments, on_gpus=on_gpus))

    def start(self, cluster, kind, nodes, *arguments, on_gpus=False, options=()):
        """Starts the agents. `options` are the launcher's. Ranks share the GPU if there is only
        one."""
        command = self.command(kind, *arguments)
        if kind == "cuda" and on_gpus and visible_gpus() == 1 and sum(nodes) > 1:
            command = ["--no-python", *on_one_gpu(command[1:])]
        run = f"{self.program.name}-{kind}-{'-'.join(map(str, nodes))}"
        endpoint = f"127.0.0.1:{cluster.daemon().port}" if len(nodes) > 1 else None
        return [cluster.agent(f"{run}-{node}", *options, nnodes=len(nodes), workers=workers,
                              run=run, endpoint=endpoint, command=command,
                              environment={**({} if on_gpus else {"CUDA_VISIBLE_DEVICES": ""}),
                                           "PYTHON_EXEC": sys.executable,
                                           **THREADS,
                                           "DDPRUN_DIGITS": str(DIGITS)})
                for node, workers in enumerate(nodes)]

    def check_no_gpu(self, cluster):
        """Checks that the variant for GPUs reports that there is none, and exits."""
        agent = cluster.agent("node", workers=1, nnodes=1, command=self.command("cuda"))
        assert agent.wait() == 1
        assert f"{self.program.name}: rank 0 of 1: no GPU is visible" in agent.err()


def lines_of(programs):
    """What they have written, without the launcher's prefixes, once all have succeeded."""
    codes = [program.wait(LIMIT) for program in programs]
    text = "".join(program.out() for program in programs)
    assert codes == [0] * len(codes), text + "".join(program.err() for program in programs)
    return sorted(re.sub(r"^\[[^ ]+:\d+\] ", "", line) for line in text.splitlines())


def check_alike(theirs, ours):
    """Checks that two programs with the same computation have printed the same, up to a fiftieth of
    each number with a decimal point."""
    fraction = r"\d+\.\d+"
    numbers = [[float(number) for line in lines for number in re.findall(fraction, line)]
               for lines in (theirs, ours)]
    assert [re.sub(fraction, "#", line) for line in theirs] == [
        re.sub(fraction, "#", line) for line in ours]
    assert numbers[0] == pytest.approx(numbers[1], **TOLERANCE)


def check_training(lines, epochs, world_size):
    """Checks that losses differ between the ranks, gradients do not, and the total loss falls.
    Returns the results of each epoch as numbers, for comparisons with another run."""
    told = r"rank \d+ \| epoch (\d+) \| loss ([\d.]+) \| gradient norm ([\d.]+)"
    over_all = r"all    \| epoch (\d+) \| loss ([\d.]+) .*test accuracy ([\d.]+)"
    found = {epoch: {"losses": [], "norms": []} for epoch in range(1, epochs + 1)}
    for line in lines:
        if match := re.fullmatch(told, line):
            found[int(match[1])]["losses"].append(float(match[2]))
            found[int(match[1])]["norms"].append(float(match[3]))
        elif match := re.fullmatch(over_all, line):
            found[int(match[1])].update(loss=float(match[2]), accuracy=float(match[3]))
    for epoch in found.values():
        assert len(epoch["losses"]) == world_size
        assert len(set(epoch["norms"])) == 1
        assert world_size == 1 or len(set(epoch["losses"])) > 1
        epoch["losses"].sort()
    falling = [epoch["loss"] for epoch in found.values()]
    assert falling == sorted(falling, reverse=True)
    return found
