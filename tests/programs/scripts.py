"""Training scripts as others write them, with their libraries' own loops: nothing in them knows of
ddprun. Each prints figures that depend on every step of every rank."""

ACCELERATE = """
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(5)
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), 0.05)
data = torch.utils.data.DataLoader(torch.randn(64, 4), 8, shuffle=True)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for epoch in range(2):
    for batch in data:
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    mean = accelerator.gather(loss).mean().item()
    print(f"epoch {epoch}: {mean:.9f}, rank {accelerator.process_index} of "
          f"{accelerator.num_processes}")
"""

TRANSFORMERS = """
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainingArguments,
                          set_seed)

set_seed(5)
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=16)
model = BertForSequenceClassification(config)
rows = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(n % 2)}
        for n in range(32)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, num_train_epochs=2, use_cpu=True, report_to=[],
                                  per_device_train_batch_size=4, save_strategy="no",
                                  logging_steps=2, disable_tqdm=True)
    trainer = Trainer(model, arguments, train_dataset=rows)
    trainer.train()
for line in trainer.state.log_history:
    print({name: line[name] for name in ("loss", "grad_norm", "learning_rate", "epoch")
           if name in line}, "of", arguments.world_size)
"""

LIGHTNING = """
import torch
import lightning

lightning.seed_everything(5, workers=True)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        loss = self.layer(batch).square().mean()
        print(f"step {index}: {loss.item():.9f}, rank {self.global_rank} of "
              f"{self.trainer.world_size}")
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp",
                            logger=False, enable_checkpointing=False, enable_progress_bar=False)
data = torch.utils.data.DataLoader(torch.randn(64, 4), 8, shuffle=True)
trainer.fit(Model(), data)
"""

# As torchvision's references/classification/train.py goes about it.
TORCHVISION = """
import os
import torch
import torch.utils.data
import torchvision
from torchvision import transforms
from torchvision.transforms.functional import InterpolationMode


def init_distributed_mode():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group("gloo", init_method="env://", world_size=world, rank=rank)
    torch.distributed.barrier()
    return rank, world


def reduced(value):
    total = torch.tensor(value, dtype=torch.float64)
    torch.distributed.all_reduce(total)
    return total.item()


rank, world = init_distributed_mode()
torch.manual_seed(5)
augmented = transforms.Compose([
    transforms.RandomResizedCrop(32, interpolation=InterpolationMode.BILINEAR),
    transforms.RandomHorizontalFlip(), transforms.PILToTensor(),
    transforms.ConvertImageDtype(torch.float)])
images = torchvision.datasets.FakeData(32, (3, 40, 40), 10, augmented)
sampler = torch.utils.data.distributed.DistributedSampler(images, seed=5)
loader = torch.utils.data.DataLoader(images, 4, sampler=sampler, num_workers=1)
model = torch.nn.parallel.DistributedDataParallel(torchvision.models.resnet18(num_classes=10))
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)
    model.train()
    for image, target in loader:
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    schedule.step()
    print(f"epoch {epoch}: {reduced(loss.item()) / world:.9f}, rank {rank} of {world}")
torch.distributed.destroy_process_group()
"""

# As DeepSpeed's getting-started page goes about it, on CPUs. ZeRO spreads the optimizer over the
# ranks.
DEEPSPEED = """
import os

os.environ["DS_ACCELERATOR"] = "cpu"
import torch
import deepspeed

torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
data = [torch.randn(4) for _ in range(64)]
deepspeed.init_distributed("gloo")
engine, _, loader, _ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), training_data=data,
    config={"train_batch_size": 16, "zero_optimization": {"stage": 2},
            "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}}})
for epoch in range(2):
    for batch in loader:
        loss = engine(batch).square().mean()
        engine.backward(loss)
        engine.step()
    print(f"epoch {epoch}: {loss.item():.9f}, rank {engine.global_rank} of {engine.world_size}")
"""

# The name is that of the package which has to be there.
SCRIPTS = {"accelerate": ACCELERATE, "transformers": TRANSFORMERS, "lightning": LIGHTNING,
           "torchvision": TORCHVISION, "deepspeed": DEEPSPEED}
