# ranks=1
import torch

torch.cuda.set_device(0)
