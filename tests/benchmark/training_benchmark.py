"""The examples that train, in C++ compared with their scripts in Python on the installed PyTorch:
the same networks, batches, threads and collectives (gloo, two ranks), both under ddprun,
alternating. Then two ranks compared with one on the same two cores, in C++.

Each figure is the median of the rounds; the spread in brackets is the interquartile range. Run it
by `tests/benchmark/run`, never beside tests.

    training_benchmark.py [ROUNDS]
"""

import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
DIGITS = Path(os.environ.get("DDPRUN_DIGITS", ROOT / ".cache" / "digits.csv"))
KINDS = ["C++", "Python"]


@dataclass
class Workload:
    name: str
    program: str
    script: str
    batch_size: int
    samples: int  # of an epoch
    epochs: int
    epoch: str  # the line at the end of an epoch, printed once per job
    arguments: tuple = ()
    ranks: int = 2
    # CUDA_VISIBLE_DEVICES, because the scripts use a GPU if they see one. None: unchanged.
    gpus: str | None = ""

    def steps(self, ranks, batch_size):
        """The steps of an epoch: each rank has as many samples, and the last batch may be
        smaller."""
        return math.ceil(math.ceil(self.samples / ranks) / batch_size)

    def command(self, kind, batch_size):
        started = (["--no-python", BIN / self.program] if kind == "C++"
                   else [ROOT / "examples" / self.script])
        return [*started, *self.arguments, "--epochs", self.epochs, "--batch-size", batch_size]


WORKLOADS = [
    Workload("digits", "digits", "06_digits/digits.py", 64, 1437, 40, r"all    \| epoch (\d+) \|"),
    Workload("ResNet-18, images of 32x32", "resnet_synthetic", "07_resnet_synthetic/resnet.py",
             16, 512, 5, r"Epoch: \[(\d+)\] took",
             ("--test-images", 2, "--print-freq", 1000)),
    Workload("BERT tiny, 32 tokens", "bert_classifier", "08_bert_classifier/bert.py", 16, 1068, 6,
             r"epoch (\d+) took"),
]


def summary(values, unit):
    middle = statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4) if len(values) > 1 else (middle,) * 3
    return f"{middle:8.1f} {unit} [{low:.1f} to {high:.1f}, n={len(values)}]"


def process_of_rank_0(run):
    wanted = {b"RANK=0", f"TORCHELASTIC_RUN_ID={run}".encode()}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and wanted <= set(
                    (folder / "environ").read_bytes().split(b"\0")):
                return folder
        except OSError:
            continue
    raise SystemExit("training_benchmark: rank 0 has no process")


def peak_mib(process):
    return int(re.search(r"VmHWM:\s+(\d+)", (process / "status").read_text())[1]) / 1024


@dataclass
class Found:
    start: float  # seconds from the command to the first epoch's end, less an epoch: to train
    rate: float  # steps per second after the first epoch
    peak: float  # MiB of rank 0
    hidden: float  # per cent of all_reduce that the backward pass hides, if it is printed


jobs = 0


def train(workload, kind, ranks=None, threads=1, batch_size=None):
    global jobs
    jobs += 1
    run = f"benchmark-{os.getpid()}-{jobs}"
    ranks, batch_size = ranks or workload.ranks, batch_size or workload.batch_size
    gpus = {} if workload.gpus is None else {"CUDA_VISIBLE_DEVICES": workload.gpus}
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        job = subprocess.Popen(
            list(map(str, [BIN / "ddprun", "--nproc-per-node", ranks, "--rdzv-id", run,
                           *workload.command(kind, batch_size)])),
            env={**os.environ, **gpus, "DDPRUN_DIGITS": str(DIGITS),
                 "OMP_NUM_THREADS": str(threads), "PYTHON_EXEC": sys.executable,
                 "XDG_STATE_HOME": folder},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        times, lines, peak = {}, [], 0.0
        for line in job.stdout:
            lines.append(line)
            if match := re.search(workload.epoch, line):
                times[int(match[1])] = time.perf_counter()
                if int(match[1]) == workload.epochs - 2:
                    peak = peak_mib(process_of_rank_0(run))
        if job.wait() != 0:
            raise SystemExit("training_benchmark: the job has failed:\n" + "".join(lines))
    an_epoch = (times[workload.epochs] - times[1]) / (workload.epochs - 1)
    hidden = re.search(r"(\d+) % of it hidden", lines[-2])
    rate = workload.steps(ranks, batch_size) / an_epoch
    return Found(times[1] - begin - an_epoch, rate, peak, float(hidden[1]) if hidden else 0.0)


def compare_kinds(workload, rounds):
    found = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            found[kind].append(train(workload, kind))
    backend = "gloo" if workload.gpus == "" else "NCCL"
    print(f"\n{workload.name}: {workload.ranks} {'rank' if workload.ranks == 1 else 'ranks'}, "
          f"{backend}, one thread each, {workload.epochs} epochs of "
          f"{workload.steps(workload.ranks, workload.batch_size)} steps", flush=True)
    for name, what, unit, is_more_better in [
            ("start", "start until it trains", "s", False),
            ("rate", "after the first epoch", "steps/s", True),
            ("peak", "memory of rank 0, peak", "MiB", False)]:
        values = {kind: [getattr(each, name) for each in all_of] for kind, all_of in found.items()}
        print(what)
        for kind in KINDS:
            print(f"  {kind:<8}{summary(values[kind], unit)}")
        ratio = statistics.median(values["C++"]) / statistics.median(values["Python"])
        print(f"  C++: {ratio:.2f} times as fast" if is_more_better
              else f"  C++: {1 / ratio:.1f} times less", flush=True)


def compare_ranks(workload, rounds):
    """The same batches on the same cores, so the difference is the cost of the processes and of
    all_reduce."""
    one, two = [], []
    for _ in range(rounds):
        one.append(train(workload, "C++", ranks=1, threads=2, batch_size=2 * workload.batch_size))
        two.append(train(workload, "C++"))
    print(f"\n{workload.name}: two ranks of one thread against one rank of two, C++")
    for ranks, all_of in (("one rank", one), ("two ranks", two)):
        print(f"  {ranks:<10}{summary([each.rate for each in all_of], 'steps/s')}")
    ratio = (statistics.median(each.rate for each in two)
             / statistics.median(each.rate for each in one))
    print(f"  DDP efficiency: {ratio:.2f}")
    if two[0].hidden:
        print(f"  all_reduce behind the backward pass: "
              f"{summary([each.hidden for each in two], '%')}", flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    missing = [each.program for each in WORKLOADS if not (BIN / each.program).exists()]
    if missing:
        raise SystemExit(f"training_benchmark: {', '.join(missing)} not built: no LibTorch")
    for workload in WORKLOADS:
        compare_kinds(workload, rounds)
    for workload in WORKLOADS[1:]:
        compare_ranks(workload, rounds)


if __name__ == "__main__":
    main()
