"""The digits example in C++ against its script in Python on the installed PyTorch: the same
network, batches, threads and collectives (gloo, two ranks), both under ddprun, alternating.

Each figure is the median of the rounds; the spread in brackets is the interquartile range. Run it
by `tests/benchmark/run`, never beside tests.

    training_benchmark.py [ROUNDS]
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("DDPRUN_BUILD", ROOT / "build")).resolve() / "bin"
EXAMPLE = ROOT / "examples" / "01_snapshot_resume"
DIGITS = Path(os.environ.get("DDPRUN_DIGITS", ROOT / ".cache" / "digits.csv"))
RANKS, EPOCHS, STEPS_OF_AN_EPOCH = 2, 40, 12
KINDS = {"C++": ["--no-python", BIN / "snapshot_resume"], "Python": [EXAMPLE / "train.py"]}
EPOCH = re.compile(r"\[rank 0\] epoch (\d+) \|")


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


def train(kind, number):
    """(seconds to the end of the first epoch, steps per second after it, peak MiB of rank 0)."""
    run = f"benchmark-{os.getpid()}-{number}"
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        job = subprocess.Popen(
            [BIN / "ddprun", "--nproc-per-node", str(RANKS), "--rdzv-id", run, *KINDS[kind],
             str(EPOCHS), str(EPOCHS), "--snapshot-dir", Path(folder) / "snapshots"],
            env={**os.environ, "DDPRUN_DIGITS": str(DIGITS), "OMP_NUM_THREADS": "1",
                 "PYTHON_EXEC": sys.executable, "XDG_STATE_HOME": folder},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        times, lines, peak = {}, [], 0.0
        for line in job.stdout:
            lines.append(line)
            if match := EPOCH.search(line):
                times[int(match[1])] = time.perf_counter()
                if int(match[1]) == EPOCHS - 2:
                    peak = peak_mib(process_of_rank_0(run))
        if job.wait() != 0:
            raise SystemExit("training_benchmark: the job has failed:\n" + "".join(lines))
    steps = STEPS_OF_AN_EPOCH * (EPOCHS - 1)
    return times[1] - begin, steps / (times[EPOCHS] - times[1]), peak


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    if not KINDS["C++"][1].exists():
        raise SystemExit("training_benchmark: snapshot_resume is not built: no LibTorch")
    found = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in KINDS:
            found[kind].append(train(kind, f"{kind[0]}{number}"))
    print(f"digits, {RANKS} ranks, gloo, one thread each, {EPOCHS} epochs of {STEPS_OF_AN_EPOCH} "
          "steps")
    for index, (what, unit, is_more_better) in enumerate(
            [("start to the end of the first epoch", "s", False), ("after it", "steps/s", True),
             ("memory of rank 0, peak", "MiB", False)]):
        values = {kind: [each[index] for each in all_of] for kind, all_of in found.items()}
        middle = {kind: statistics.median(each) for kind, each in values.items()}
        print(what)
        for kind in KINDS:
            print(f"  {kind:<8}{summary(values[kind], unit)}")
        ratio = middle["C++"] / middle["Python"]
        print(f"  C++ is {ratio if is_more_better else 1 / ratio:.1f} times "
              f"{'as fast' if is_more_better else 'less'}")


if __name__ == "__main__":
    main()
