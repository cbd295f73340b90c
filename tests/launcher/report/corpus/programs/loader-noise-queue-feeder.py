# ranks=1
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

import multiprocessing
import threading

class Held:
    def __reduce__(self):
        raise ConnectionResetError(104, "Connection reset by peer")


queue = multiprocessing.Queue()


def train():
    queue.put(Held())
    raise FloatingPointError("loss is inf at step 3")


train()
