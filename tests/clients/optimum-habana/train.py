"""Trains a model of small_models.py and prints the loss of each step as a line of JSON.

    train.py {cpu|hpu} bert,gpt2 MODELS OUTPUT '{"argument": value}'

"cpu" is transformers' Trainer, "hpu" is optimum-habana's, and the last argument has more of its
training arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import small_models
from transformers import BertForSequenceClassification, GPT2LMHeadModel

_COMMON: dict[str, Any] = {
    "per_device_train_batch_size": 4,
    "per_device_eval_batch_size": 8,
    "num_train_epochs": 2,
    "learning_rate": 5e-3,
    "max_grad_norm": 1.0,
    "adam_epsilon": 1e-8,  # the two have different defaults
    "logging_steps": 1,
    "report_to": "none",
    "seed": 11,
}


def _trainer(kind: str, arguments: dict[str, Any], model: Any, data: Any) -> Any:
    if kind == "cpu":
        from transformers import Trainer, TrainingArguments

        own = TrainingArguments(use_cpu=True, optim="adamw_torch", **arguments)
        return Trainer(model=model, args=own, train_dataset=data, eval_dataset=data)
    from optimum.habana import GaudiConfig, GaudiTrainer, GaudiTrainingArguments

    own = GaudiTrainingArguments(use_habana=True, **arguments)
    fused = GaudiConfig(use_fused_adam=True, use_fused_clip_norm=True)
    return GaudiTrainer(
        model=model, gaudi_config=fused, args=own, train_dataset=data, eval_dataset=data
    )


def main(kind: str, names: str, models: Path, output: Path, more: str) -> None:
    if kind == "hpu":
        from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi

        adapt_transformers_to_gaudi()
    classes = {"bert": BertForSequenceClassification, "gpt2": GPT2LMHeadModel}
    for name in names.split(","):
        model = classes[name].from_pretrained(models / name)
        arguments = {**_COMMON, "output_dir": str(output / name), **json.loads(more)}
        trainer = _trainer(kind, arguments, model, small_models.samples(name))
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        losses.append(trainer.evaluate()["eval_loss"])
        print(json.dumps({"name": name, "losses": losses}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
