"""Trains a sentence encoder with optimum-habana's trainer, and encodes sentences with it.

    sentences.py BERT

fails unless the loss falls and hpu's embeddings are those of the CPU up to rounding.
"""

from __future__ import annotations

import os
import sys
import tempfile

import datasets
import torch
from optimum.habana import (
    GaudiConfig,
    SentenceTransformerGaudiTrainer,
    SentenceTransformerGaudiTrainingArguments,
)
from optimum.habana.sentence_transformers.modeling_utils import (
    adapt_sentence_transformers_to_gaudi,
)
from sentence_transformers import SentenceTransformer, losses, models

_PAIRS = 32
_CONFIG = "Habana/distilbert-base-uncased"


def _encoder(folder: str, device: str) -> SentenceTransformer:
    word = models.Transformer(folder)
    return SentenceTransformer(modules=[word, models.Pooling(64)], device=device)


def _data() -> datasets.Dataset:
    """Pairs of sentences that are equal or have no word in common."""
    first = [f"w{i} w{i + 1} w{i + 2}" for i in range(_PAIRS)]
    second = [s if i % 2 else f"w{90 + i % 30} w80" for i, s in enumerate(first)]
    scores = [float(i % 2) for i in range(_PAIRS)]
    return datasets.Dataset.from_dict({"sentence1": first, "sentence2": second, "score": scores})


def main(folder: str) -> None:
    data = _data()
    sentences = data["sentence1"][:8]
    expected = _encoder(folder, "cpu").encode(sentences, convert_to_tensor=True)
    adapt_sentence_transformers_to_gaudi()
    model = _encoder(folder, "hpu")
    found = model.encode(sentences, convert_to_tensor=True)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-4)
    with tempfile.TemporaryDirectory() as output:
        # The trainer asks the hub for this name, unless there is a folder of it.
        os.chdir(output)
        GaudiConfig(use_fused_adam=True, use_fused_clip_norm=True).save_pretrained(_CONFIG)
        arguments = SentenceTransformerGaudiTrainingArguments(
            output_dir=output,
            num_train_epochs=6,
            per_device_train_batch_size=8,
            learning_rate=1e-3,
            logging_steps=4,
            report_to="none",
            save_strategy="no",
            use_habana=True,
            gaudi_config_name=_CONFIG,
            use_lazy_mode=False,
        )
        trainer = SentenceTransformerGaudiTrainer(
            model=model,
            args=arguments,
            train_dataset=data,
            loss=losses.CosineSimilarityLoss(model=model),
        )
        trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"losses {logged}")
    if not logged[-1] < 0.5 * logged[0]:
        raise SystemExit("the loss did not fall to half")


if __name__ == "__main__":
    main(sys.argv[1])
