# ranks=1
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(100000)


def train():
    for step, batch in enumerate(DataLoader(Images(), batch_size=4, num_workers=2)):
        if step == 3:
            raise FloatingPointError("loss is inf at step 3")


pid = os.getpid()
os.register_at_fork(after_in_child=lambda: None)
loaders = iter(DataLoader(Images(), batch_size=4, num_workers=2))
next(loaders)
if os.fork() == 0:
    del loaders
    sys.exit(0)
os.wait()
train()
