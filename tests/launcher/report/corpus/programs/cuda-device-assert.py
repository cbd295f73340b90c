# gpus=1
import torch

scores = torch.randn(8, 10, device="cuda", requires_grad=True)
labels = torch.full((8,), 10, device="cuda")
loss = torch.nn.functional.cross_entropy(scores, labels)
loss.backward()
print(f"loss {loss.item()}")
