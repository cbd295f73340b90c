# ranks=1
import sys

sys.exit("no checkpoint in /data/ckpt: give --from-scratch")
