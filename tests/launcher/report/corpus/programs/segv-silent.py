# ranks=1
import ctypes
import sys

print("step 1: loss 0.3", file=sys.stderr, flush=True)
ctypes.string_at(0)
