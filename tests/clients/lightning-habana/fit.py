"""Trains a small model with lightning-habana in one of several forms, and checks what it learns.

    fit.py FORM FOLDER

FORM is a name in FORMS. The weights of the forms in f32 are compared with those that Lightning's
own accelerator for the CPU gives.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning_habana.pytorch.accelerator import HPUAccelerator
from lightning_habana.pytorch.plugins.precision import HPUPrecisionPlugin
from lightning_habana.pytorch.strategies import HPUDDPStrategy, SingleHPUStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FORMS = ("f32", "bf16", "compiled", "lazy", "ranks")
_SAMPLES, _FEATURES, _CLASSES = 64, 16, 4


class Classifier(lightning.LightningModule):
    def __init__(self, compile_layers: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers: nn.Module = nn.Sequential(
            nn.Linear(_FEATURES, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, _CLASSES)
        )
        if compile_layers:
            self.layers.compile(backend="hpu_backend")

    def _loss(self, batch: list[torch.Tensor], name: str) -> torch.Tensor:
        inputs, classes = batch
        loss = nn.functional.cross_entropy(self.layers(inputs).float(), classes)
        self.log(name, loss, on_epoch=True, prog_bar=False)
        return loss

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self._loss(batch, "train_loss")

    def validation_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self._loss(batch, "val_loss")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def _loader() -> DataLoader[Any]:
    inputs = torch.randn(_SAMPLES, _FEATURES, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(inputs, inputs[:, :_CLASSES].argmax(1)), batch_size=16)


def _trainer(folder: Path, epochs: int, **more: Any) -> lightning.Trainer:
    saved = ModelCheckpoint(dirpath=folder, filename="last", save_last=False)
    return lightning.Trainer(
        max_epochs=epochs,
        callbacks=[saved],
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **more,
    )


def _on_hpu(form: str) -> dict[str, Any]:
    if form == "ranks":
        ranks = HPUDDPStrategy(parallel_devices=[torch.device("hpu")] * 2)
        return {"accelerator": HPUAccelerator(), "devices": 2, "strategy": ranks}
    given = {"accelerator": HPUAccelerator(), "devices": 1, "strategy": SingleHPUStrategy()}
    if form == "bf16":
        given["plugins"] = [HPUPrecisionPlugin(precision="bf16-mixed")]
    return given


def _weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().cpu() for name, value in model.state_dict().items()}


def main(form: str, folder: Path) -> None:
    model = Classifier(compile_layers=form == "compiled")
    given = _on_hpu(form)
    trainer = _trainer(folder / form, 4, **given)
    trainer.fit(model, _loader(), _loader())
    first = trainer.callback_metrics["val_loss"].item()
    # A new trainer goes on from the checkpoint.
    again = Classifier(compile_layers=form == "compiled")
    trainer = _trainer(folder / f"{form}-again", 8, **_on_hpu(form))
    trainer.fit(again, _loader(), _loader(), ckpt_path=str(folder / form / "last.ckpt"))
    last = trainer.callback_metrics["val_loss"].item()
    print(f"validation loss {first:.4f} after 4 epochs, {last:.4f} after 8")
    if not last < first < 1.2:
        raise SystemExit("the loss did not fall")
    if trainer.current_epoch != 8 or trainer.global_step != 8 * len(trainer.train_dataloader):
        raise SystemExit(f"the second fit ended in epoch {trainer.current_epoch}")
    if form in ("f32", "compiled", "lazy"):
        expected = Classifier()
        plain = _trainer(folder / f"{form}-cpu", 8, accelerator="cpu", devices=1)
        plain.fit(expected, _loader(), _loader())
        torch.testing.assert_close(_weights(again), _weights(expected), rtol=1e-2, atol=2e-3)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
