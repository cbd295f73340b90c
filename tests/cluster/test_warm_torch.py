"""The Python of warm workers with PyTorch: what a script that trains can see is what it sees cold,
and figures are the same."""

import json
import os
import re
import sys

import pytest

from tests.support.cluster import ROOT
from tests.support.leaves import differing
from tests.support.ports import free_port
from tests.support.warm_agent import WarmAgent, ahead

torch = pytest.importorskip("torch", reason="PyTorch is not installed here")

PROBE = ROOT / "tests" / "support" / "warm_torch_probe.py"


@pytest.fixture
def make_agent():
    made = []

    def make(words, **more):
        own = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "RANK", "TORCHELASTIC_RESTART_COUNT")}
        made.append(WarmAgent(sys.executable, words, {
            name: value for name, value in {**own, "OMP_NUM_THREADS": "1", **more}.items()
            if value is not None}))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.mark.parametrize("threads", ["1", "2", None])
def test_a_script_that_trains_sees_no_difference(make_agent, threads):
    """Nor where its imports are recorded. What rank 0 has more is the same with any threads."""
    agent = make_agent([PROBE], OMP_NUM_THREADS=threads)
    ends = [agent.cold(is_recorded=True, RANK="1")]
    assert agent.load().startswith("ready ")
    ends.append(agent.warm(RANK="1"))
    if threads == "1":
        ends += [agent.cold(RANK="0"), agent.warm(RANK="0")]
    seen = [json.loads(end.out.splitlines()[0]) for end in ends]
    assert [one["warm"] for one in seen] == [False, True] * (len(ends) // 2)
    most = seen[-1]["same"]
    for one in seen:
        assert not differing(one["same"], {name: most[name] for name in one["same"]})
    for own in zip(*(one["own"] for one in seen)):
        assert len(set(own)) == len(seen), own  # each draws for itself
    # What breakpoint() finds at its standard input's end, and what that ends in.
    rest = [(end.status, end.out.splitlines()[1:], end.err) for end in ends]
    assert rest[1:] == [rest[0]] * (len(ends) - 1)
    assert rest[0][0] == 1 and "bdb.BdbQuit" in rest[0][2]


PROGRAMS = {
    "accelerate": """
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
            accelerator.print(f"epoch {epoch}: {loss.item():.9f} on {accelerator.device}, "
                              f"{accelerator.num_processes} processes")
        """,
    "transformers": """
        import os, tempfile, torch
        os.environ["HF_HUB_OFFLINE"] = "1"
        from transformers import (BertConfig, BertForSequenceClassification, Trainer,
                                  TrainingArguments, set_seed)
        set_seed(5)
        config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1,
                            num_attention_heads=2, intermediate_size=16)
        model = BertForSequenceClassification(config)
        rows = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(n % 2)}
                for n in range(32)]
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(folder, num_train_epochs=2, use_cpu=True, report_to=[],
                                          per_device_train_batch_size=8, save_strategy="no",
                                          logging_steps=2, disable_tqdm=True)
            trainer = Trainer(model, arguments, train_dataset=rows)
            trainer.train()
        for line in trainer.state.log_history:
            print({name: line[name] for name in ("loss", "grad_norm", "learning_rate", "epoch")
                   if name in line})
        """,
    "lightning": """
        import torch, lightning
        lightning.seed_everything(5, workers=True)
        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)
            def training_step(self, batch, index):
                loss = self.layer(batch).square().mean()
                print(f"step {index}: {loss.item():.9f}")
                return loss
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False,
                                    enable_checkpointing=False, enable_progress_bar=False)
        data = torch.utils.data.DataLoader(torch.randn(32, 4), 8, shuffle=True)
        trainer.fit(Model(), data)
        """,
}
# Seconds, speeds and places in memory.
ANEW = re.compile(r"0x[0-9a-f]+|\d+\.\d+ ?(s|it/s|seconds)\b|'train_\w+': '?[\d.]+'?|"
                  r"tmp\w{8}|\[W[\d :.]+")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_others_give_the_same_output_and_figures(make_agent, tmp_path, name):
    pytest.importorskip(name, reason=f"{name} is not installed here")
    script = tmp_path / "train.py"
    body = "\n".join(line[8:] for line in PROGRAMS[name].splitlines())
    script.write_text(f"import sys\nis_warm = {ahead('torch')}\n{body}\n"
                      "print('warm', is_warm, file=sys.__stderr__)\n")
    ranked = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    agent = make_agent([script])
    agent.rank_names = [*ranked, "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"]
    seen = []
    for run in ("record", "cold", "warm"):
        if run == "warm":
            answer = agent.load_what_may_be()
            assert answer.startswith("ready "), answer
        more = {**ranked, "MASTER_PORT": str(free_port())}
        end = agent.warm(**more) if run == "warm" else agent.cold(run == "record", **more)
        assert end.status == 0, end.err
        said = [ANEW.sub("~", line) for line in end.out.splitlines() + end.err.splitlines()]
        seen.append([line for line in said if not line.startswith("warm ")])
        assert f"warm {run == 'warm'}" in end.err, (run, end)
    assert len(seen[1]) >= 2 and seen[2] == seen[1]
