# gpus=1
import torch

kept = [torch.empty(20 << 30, dtype=torch.uint8, device="cuda") for _ in range(100)]
