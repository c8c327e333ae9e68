"""transformers.Trainer with accelerate, both unpatched, trains on hpu (clients.md)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import habana_frameworks.torch  # noqa: F401  registers the device

pytest.importorskip("accelerate", reason="accelerate is not installed: Trainer needs it")

from accelerate import Accelerator
from accelerate.state import AcceleratorState
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None, reason="torch's CUDA wheel claims the accelerator"
)

# The functions that transformers replaces in torch once it finds an hpu device.
REPLACED = [
    *((torch, name) for name in ("compile", "gather", "scatter", "take_along_dim")),
    *((torch.Tensor, name) for name in ("gather", "scatter")),
    (torch.linalg, "cholesky"),
]


@pytest.fixture(scope="module", autouse=True)
def torch_as_it_was():
    """Restores torch, so that other tests find it unchanged."""
    kept = [(owner, name, getattr(owner, name)) for owner, name in REPLACED]
    yield
    for owner, name, value in kept:
        setattr(owner, name, value)


@pytest.fixture(autouse=True)
def no_accelerator():
    """accelerate keeps the settings of the process's first Accelerator."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def examples() -> list[dict[str, torch.Tensor]]:
    """The label is the first token."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(2, 50, (32, 8), generator=generator)
    tokens[:, 0] = torch.arange(32) % 2
    return [{"input_ids": row, "labels": row[0]} for row in tokens]


def tiny_model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def trainer(folder: Any, **changes: Any) -> Trainer:
    settings = {
        "max_steps": 12,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }
    arguments = TrainingArguments(output_dir=str(folder), **{**settings, **changes})
    return Trainer(
        model=tiny_model(), args=arguments, train_dataset=examples(), eval_dataset=examples()
    )


def losses(of: Trainer) -> list[float]:
    return [entry["loss"] for entry in of.state.log_history if "loss" in entry]


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory):
    run = trainer(tmp_path_factory.mktemp("cpu"), use_cpu=True)
    run.train()
    return run


@pytest.mark.parametrize(
    ("changes", "tolerance"),
    [
        ({}, 1e-3),
        ({"dataloader_num_workers": 2}, 1e-3),
        ({"torch_compile": True}, 1e-3),
        ({"skip_memory_metrics": False}, 1e-3),
        ({"fp16": True}, 2e-2),
        ({"bf16": True}, 1e-1),
    ],
    ids=["plain", "workers", "compile", "memory metrics", "fp16", "bf16"],
)
def test_losses_are_those_of_the_cpu(tmp_path, on_the_cpu, changes, tolerance):
    run = trainer(tmp_path, **changes)
    run.train()
    assert run.args.device == torch.device("hpu:0")
    assert {p.device.type for p in run.model.parameters()} == {"hpu"}
    assert {p.dtype for p in run.model.parameters()} == {torch.float32}
    assert len(losses(run)) == 12 and losses(run)[-1] < 0.5 < losses(run)[0]
    assert losses(run) == pytest.approx(losses(on_the_cpu), abs=tolerance)


def test_evaluation_and_prediction(tmp_path, on_the_cpu):
    run = trainer(tmp_path)
    run.train()
    assert run.evaluate()["eval_loss"] == pytest.approx(
        on_the_cpu.evaluate()["eval_loss"], abs=1e-3
    )
    logits = run.predict(examples()).predictions
    assert logits.shape == (32, 2)
    assert logits == pytest.approx(on_the_cpu.predict(examples()).predictions, abs=1e-2)


def test_training_resumes_from_a_checkpoint(tmp_path):
    """The weights, the optimizer and the device's random state are restored."""
    whole = trainer(tmp_path, save_strategy="steps", save_steps=6)
    whole.train()
    saved = torch.load(tmp_path / "checkpoint-6/rng_state.pth", weights_only=False)
    assert saved["hpu"].dtype == torch.uint8
    resumed = trainer(tmp_path, save_strategy="no")
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert losses(resumed)[6:] == pytest.approx(losses(whole)[6:], abs=1e-4)


def test_loop_with_accelerate_alone(tmp_path):
    torch.manual_seed(0)
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    assert accelerator.device.type == "hpu"
    model = torch.nn.Linear(4, 1)
    x = torch.randn(64, 4)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=0.1),
        torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True),
    )
    for _ in range(20):
        for features, target in loader:
            assert features.device.type == "hpu"
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(features), target)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 10.0)
                optimizer.step()
                optimizer.zero_grad()
    weight = accelerator.unwrap_model(model).weight.detach().cpu()
    torch.testing.assert_close(weight, torch.ones(1, 4), rtol=0, atol=0.05)
    accelerator.save_state(str(tmp_path))
    with torch.no_grad():
        accelerator.unwrap_model(model).weight.zero_()
    accelerator.load_state(str(tmp_path))
    assert torch.equal(accelerator.unwrap_model(model).weight.detach().cpu(), weight)
