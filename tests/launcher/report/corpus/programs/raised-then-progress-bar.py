# ranks=1
import atexit
import sys

for step in range(30):
    sys.stderr.write(f"\r{step * 3}%|{'#' * (step // 3)}| {step}/30 [00:0{step // 10}<00:10]")


def summary():
    print("\nrun summary:", file=sys.stderr)
    for name in "loss", "accuracy", "epoch", "lr", "grad_norm", "tokens", "steps", "speed":
        print(f"  {name:12} 0.123", file=sys.stderr)
    print("synced 5 files; find logs at: /home/user/job/wandb", file=sys.stderr)


atexit.register(summary)
raise ValueError("loss is NaN")
