# ranks=1
import os, sys, time
import torch
import torch.distributed as dist
from datetime import timedelta

rank = int(os.environ["RANK"])
import socket

taken = socket.socket()
taken.bind(("", int(os.environ["MASTER_PORT"])))
taken.listen()
dist.init_process_group("gloo")
