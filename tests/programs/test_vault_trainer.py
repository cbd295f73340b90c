"""A Trainer of transformers whose output_dir is in the vault, as worker/README.md shows it."""

import re
import sys

from tests.support.cluster import ROOT

SCRIPT = """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from ddprun import vault
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainerCallback,
                          TrainingArguments, set_seed)


class Dies(TrainerCallback):
    def on_step_begin(self, args, state, control, **others):
        if state.global_step == 5 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), 9)

    def on_train_begin(self, args, state, control, **others):
        print(f"rank {args.process_index} of {args.world_size} goes on from {state.global_step}")


set_seed(5)
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=16)
rows = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(n % 2)}
        for n in range(64)]
arguments = TrainingArguments(f"{vault.folder()}/out", save_steps=2, save_total_limit=2,
                              max_steps=8, use_cpu=True, report_to=[], disable_tqdm=True,
                              per_device_train_batch_size=4)
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows,
                  callbacks=[vault.MarkCheckpoints(), Dies()])
trainer.train(resume_from_checkpoint=vault.newest())
print(f"rank {arguments.process_index} ends at {trainer.state.global_step}")
"""


def test_a_trainer_goes_on_from_the_checkpoint_that_its_callback_has_marked(cluster, tmp_path,
                                                                            needs):
    needs("transformers")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    def run():
        agent = cluster.agent(
            "node", "--max-restarts", 1, "--vault", tmp_path / "kept", workers=2, command=[script],
            environment={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1",
                         "PYTHONPATH": str(ROOT / ".cmake" / "package" / "wheel")})
        assert agent.wait() == 0, agent.err()
        assert len(re.findall(r"rank [01] ends at 8", agent.out())) == 2
        return sorted(re.findall(r"rank [01] of 2 goes on from (\d+)", agent.out()))

    assert run() == ["0", "0", "4", "4"]
    # Tomorrow: nothing is in memory, and the last one is complete.
    assert run() == ["8", "8"]
