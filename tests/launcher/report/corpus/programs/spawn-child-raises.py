# ranks=1
import torch.multiprocessing as mp


def train(rank):
    if rank == 1:
        raise ValueError("loss is NaN")


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
