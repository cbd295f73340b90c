"""C++ compared with Python under ddprun, alternating, on NVIDIA GPUs with one rank for each: the
all_reduce of examples/03_nccl_allreduce size by size, and the training of ResNet-50 and of BERT.
Without a GPU it says so, and does nothing.

Each figure is the median of the rounds; the spread in brackets is the interquartile range. Run it
by `tests/benchmark/run nccl`, never beside tests.

    nccl_benchmark.py [ROUNDS]
"""

import os
import re
import statistics
import subprocess
import sys

from training_benchmark import BIN, KINDS, ROOT, Workload, compare_kinds

sys.path.insert(0, str(ROOT))
from tests.support.gpus import visible_gpus  # noqa: E402

SIZES = ["-b", "8", "-e", "256M", "-f", "8", "-n", "20"]
FOLDER = ROOT / "examples" / "03_nccl_allreduce"
# Both sum in place, for which nccl-tests has the last four columns: time, algbw, busbw, #wrong.
LINES = {
    "C++": re.compile(r"(\d+) +\d+ +float .* ([\d.]+) +[\d.]+ +([\d.]+) +(\d+)$", re.MULTILINE),
    "Python": re.compile(r"(\d+) B +([\d.]+) us +([\d.]+) GB/s (\d+) wrong$", re.MULTILINE),
}


def all_reduce(kind, ranks):
    """For each size in bytes: the microseconds, and GB/s on the bus."""
    command = (["--nccl-ids=on", "--no-python", BIN / "nccl_allreduce"] if kind == "C++"
               else [FOLDER / "all_reduce.py"])
    done = subprocess.run(
        list(map(str, [BIN / "ddprun", "--nproc-per-node", ranks, *command, *SIZES])),
        env={**os.environ, "PYTHON_EXEC": sys.executable}, capture_output=True, text=True)
    found = read_table(kind, done.stdout)
    if done.returncode != 0 or not found:
        raise SystemExit(f"nccl_benchmark: all_reduce in {kind} has failed:\n"
                         f"{done.stdout}{done.stderr}")
    return found


def read_table(kind, text):
    found = {}
    for size, time, bandwidth, wrong in LINES[kind].findall(text):
        if int(wrong):
            raise SystemExit(f"nccl_benchmark: {kind}: {wrong} elements of {size} B are wrong")
        found[int(size)] = float(time), float(bandwidth)
    return found


def compare_all_reduce(ranks, rounds):
    found = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            found[kind].append(all_reduce(kind, ranks))
    print(f"\nall_reduce of float32 over {ranks} {'GPU' if ranks == 1 else 'GPUs'}, in place; "
          f"medians of {rounds}")
    if ranks == 1:
        print("with one GPU no link is measured, only what a call takes")
    print(f"{'bytes':>12}  {'C++':>22}  {'Python':>22}  Python / C++")
    for size in found["C++"][0]:
        times = {kind: statistics.median(each[size][0] for each in all_of)
                 for kind, all_of in found.items()}
        buses = {kind: statistics.median(each[size][1] for each in all_of)
                 for kind, all_of in found.items()}
        cells = [f"{times[kind]:9.1f} us {buses[kind]:5.1f} GB/s" for kind in KINDS]
        print(f"{size:12d}  {cells[0]:>22}  {cells[1]:>22}  {times['Python'] / times['C++']:.2f}",
              flush=True)


def workloads(ranks):
    return [
        Workload("ResNet-50, images of 64x64", "resnet_synthetic_cuda",
                 "07_resnet_synthetic/resnet.py", 64, 64 * 32 * ranks, 5, r"Epoch: \[(\d+)\] took",
                 ("--arch", "resnet50", "--image-size", 64, "--images", 64 * 32 * ranks,
                  "--test-images", 2, "--print-freq", 1000), ranks, None),
        Workload("BERT base, 32 tokens", "bert_classifier_cuda", "08_bert_classifier/bert.py", 16,
                 1068, 6, r"epoch (\d+) took", ("--size", "base"), ranks, None),
    ]


def device():
    told = subprocess.run([sys.executable, "-c", "import torch as t; print("
                           "t.cuda.get_device_name(0), t.__version__, t.cuda.nccl.version())"],
                          capture_output=True, text=True)
    return told.stdout.strip() or "an unknown GPU"


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    gpus = visible_gpus()
    if gpus == 0:
        print("left out: no NVIDIA GPU is visible")
        return
    print(f"{gpus} x {device()}")
    if (BIN / "nccl_allreduce").exists():
        compare_all_reduce(gpus, rounds)
    else:
        print("all_reduce: left out: nccl_allreduce is not built (needs NCCL and nvcc)")
    for workload in workloads(gpus):
        if (BIN / workload.program).exists():
            compare_kinds(workload, rounds)
        else:
            print(f"{workload.name}: left out: {workload.program} is not built (needs a LibTorch "
                  "for CUDA)")


if __name__ == "__main__":
    main()
