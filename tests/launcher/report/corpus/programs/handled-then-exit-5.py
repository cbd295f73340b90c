# ranks=1
import sys
import traceback


def fetch():
    raise TimeoutError("the metrics server did not answer")


def report():
    try:
        fetch()
    except TimeoutError:
        traceback.print_exc()


report()
for step in range(40):
    print(f"step {step}: loss {1 / (step + 1):.3f}", file=sys.stderr)
print("no improvement for 10 epochs", file=sys.stderr)
sys.exit(5)
