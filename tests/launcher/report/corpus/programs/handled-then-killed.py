# ranks=1
import os
import sys
import traceback

try:
    open("/home/user/job/resume.ckpt")
except FileNotFoundError:
    traceback.print_exc()
for step in range(20):
    print(f"step {step}: loss {1 / (step + 1):.3f}", file=sys.stderr)
sys.stderr.flush()
os.kill(os.getpid(), 9)
