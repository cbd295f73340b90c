# ranks=2 keep=1 TORCHELASTIC_RUN_ID=job GROUP_RANK=0
import torch
import pytorch_lightning as pl


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        loss = self.layer(batch[0]).sum()
        if self.global_rank == 1 and index == 2:
            raise ValueError("loss is NaN")
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


data = torch.utils.data.TensorDataset(torch.ones(64, 4))
trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=4))
