"""An average of a model's weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import nn


class FusedEMA:
    """Keeps an average of everything in a model's state in a copy of the model, `ema`. The weight
    of the past grows from 0 towards `decay` in the first thousands of updates."""

    def __init__(self, model: nn.Module, decay: float = 0.9999, updates: float = 0) -> None:
        if decay < 0.0:
            raise ValueError(f"FusedEMA: decay is {decay}, not a number of at least 0")
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        self.ema = copy.deepcopy(model).eval()
        self.decay = lambda count: decay * (1 - math.exp(-count / 2000))
        self.updates = updates
        self.updated_ema = list(self.ema.state_dict().values())

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.updates += 1
        values = list(model.state_dict().values())
        decay = torch.tensor([self.decay(self.updates)]).to(values[0].device)
        torch.ops.hpu.optimizer_ema(values, self.updated_ema, decay)

    def update_attr(
        self,
        model: nn.Module,
        include: Sequence[str] = (),
        exclude: Sequence[str] = ("process_group", "reducer"),
    ) -> None:
        """Copies public attributes of the model: those of `include`, or all but `exclude`."""
        for name, value in vars(model).items():
            wanted = not include or name in include
            if wanted and not name.startswith("_") and name not in exclude:
                setattr(self.ema, name, value)
