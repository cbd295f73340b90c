# gpus=1 CUDA_VISIBLE_DEVICES=12
import torch

torch.ones(1, device="cuda")
