# gpus=1
import os
import torch

os.environ["LOCAL_RANK"] = "7"
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
