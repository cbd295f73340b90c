# ranks=1
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index == 20:
            os.kill(os.getpid(), signal.SIGBUS)
        return torch.ones(1)


for batch in DataLoader(Images(), batch_size=4, num_workers=2):
    pass
