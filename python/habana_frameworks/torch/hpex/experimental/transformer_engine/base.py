"""The parts that all layers in fp8 share: scales, their updates, and their state in checkpoints."""

from __future__ import annotations

import collections
import io
from dataclasses import dataclass
from typing import Any

import torch

from . import distributed
from .fp8 import FP8GlobalStateManager, get_fp8_recipe
from .recipe import DelayedScaling, Format
from .scaling import FP8TensorMeta, Scales

FORWARD, HYBRID, BACKWARD = "scaling_fwd", "scaling_hybrid", "scaling_bwd"


@dataclass
class Run:
    """One run of a layer: its recipe and scales, which its backward uses too."""

    recipe: DelayedScaling
    forward: Scales
    # The scales with which the backward reads inputs and weights, in its own format.
    saved: Scales
    backward: FP8TensorMeta
    measures: bool
    measures_gradient: bool
    follows: bool  # whether the scales follow the measurements


class TransformerEngineBaseModule(torch.nn.Module):
    """A layer with scales in fp8_meta. `run_cnt` counts its runs in fp8."""

    def __init__(self) -> None:
        super().__init__()
        self.run_cnt = 0
        self.fp8_meta: dict[str, Any] = {"recipe": get_fp8_recipe()}
        # The scales of runs that will be computed again, oldest first.
        self._again: collections.deque[Run] = collections.deque()
        self._measures = False

    def start_run(self, inputs: int, device: torch.device) -> Run:
        """Begins a run of a layer whose forward has `inputs` tensors in fp8."""
        if distributed.in_fp8_activation_recompute_phase() and self._again:
            return self._again.popleft()
        recipe = get_fp8_recipe()
        self._prepare(recipe, inputs, device)
        manual = FP8GlobalStateManager.manual_measurement
        due = recipe.interval == 1
        if not due:  # a count in every run would be a new number for Dynamo in every run
            self.run_cnt += 1
            due = self.run_cnt % recipe.interval == 1
        measures = due if manual is None else manual
        follows = due if manual is None else True
        self._measures = measures
        hybrid = recipe.fp8_format is Format.HYBRID
        if follows:
            self.fp8_meta[FORWARD].update(recipe, recipe.fp8_format.value.max_fwd)
            if hybrid:
                self.fp8_meta[HYBRID].update(recipe, recipe.fp8_format.value.max_bwd)
        forward = self.fp8_meta[FORWARD].scales()
        saved = self.fp8_meta[HYBRID].scales() if hybrid else forward
        backward = self.fp8_meta[BACKWARD]
        if distributed.is_fp8_activation_recompute_enabled() and self.training:
            self._again.append(Run(recipe, forward, saved, backward, False, measures, follows))
        return Run(recipe, forward, saved, backward, measures, measures, follows)

    def measure(self, run: Run, *tensors: torch.Tensor) -> None:
        """Measures the tensors of a forward, if the run measures."""
        if not run.measures:
            return
        self.fp8_meta[FORWARD].measure(*tensors)
        if run.recipe.fp8_format is Format.HYBRID:
            self.fp8_meta[HYBRID].measure(*tensors)

    def get_amax_measure_state(self) -> dict[str, bool]:
        """Whether the newest run measured."""
        return {"fwd_enabled": self._measures, "bwd_enabled": self._measures}

    def _prepare(self, recipe: DelayedScaling, inputs: int, device: torch.device) -> None:
        self.fp8_meta["recipe"] = recipe
        wanted = {FORWARD: inputs, BACKWARD: 1}
        if recipe.fp8_format is Format.HYBRID:
            wanted[HYBRID] = inputs
        for name, tensors in wanted.items():
            if name not in self.fp8_meta:
                self.fp8_meta[name] = FP8TensorMeta()
                self.fp8_meta[name].reset(tensors, recipe.amax_history_len, device)
            else:
                self.fp8_meta[name].resize(recipe.amax_history_len)

    def save_fp8_meta(self) -> dict[str, Any]:
        """Copies of the scales, the measurements and the count of runs, for load_fp8_meta."""
        metas = {
            name: ({n: t.clone() for n, t in meta.tensors().items()}, meta.measured)
            for name, meta in self.fp8_meta.items()
            if isinstance(meta, FP8TensorMeta)
        }
        return {"metas": metas, "run_cnt": self.run_cnt}

    def load_fp8_meta(self, saved: dict[str, Any]) -> None:
        """Undoes what runs since save_fp8_meta changed, such as those that capture an HPU graph.
        Raises ValueError if the history has another length than then."""
        self.run_cnt = saved["run_cnt"]
        for name, meta in self.fp8_meta.items():
            if isinstance(meta, FP8TensorMeta):
                meta.restore(*saved["metas"].get(name, (meta.initial(), False)))

    # A tensor, because some libraries save nothing else.
    def get_extra_state(self) -> torch.Tensor:
        metas = {k: m for k, m in self.fp8_meta.items() if isinstance(m, FP8TensorMeta)}
        if not metas:
            return torch.empty(0, dtype=torch.uint8)
        state = {
            "run_cnt": self.run_cnt,
            "tensors": {k: {n: t.cpu() for n, t in m.tensors().items()} for k, m in metas.items()},
            "measured": {k: m.measured for k, m in metas.items()},
        }
        buffer = io.BytesIO()
        torch.save(state, buffer)
        return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)

    def set_extra_state(self, state: torch.Tensor | None) -> None:
        if state is None or state.numel() == 0:
            return
        found = torch.load(io.BytesIO(state.cpu().numpy().tobytes()), weights_only=True)
        self.run_cnt = found["run_cnt"]
        device = next((p.device for p in self.parameters()), torch.device("hpu"))
        for name, tensors in found["tensors"].items():
            self.fp8_meta[name] = FP8TensorMeta()
            self.fp8_meta[name].load(tensors, found["measured"][name], device)
