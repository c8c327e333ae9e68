"""Manifests of warm-ups: their contents, and errors that name line and field."""

from __future__ import annotations

import os

import pytest
import torch
from paths import ROOT

from habana_frameworks.torch.warmup.buckets import Shape
from habana_frameworks.torch.warmup.entries import tensor
from habana_frameworks.torch.warmup.manifest import (
    InputSpec,
    ManifestError,
    parse_manifest,
    read_manifest,
)
from habana_frameworks.torch.warmup.plan import make_plan

EXAMPLE = ROOT / "examples/warmup/encoder.yaml"
GOOD = """\
version: 1
models:
  - model: app.models:make
    inputs: app.models:inputs
    batch: [4, 1]
    sequence:
      linear: {low: 16, high: 48, step: 16}
    dtype: bfloat16
    options: {deterministic: true}
"""


def test_the_example_is_read():
    manifest = read_manifest(EXAMPLE)
    (entry,) = manifest.entries
    assert manifest.parallel == 8
    assert entry.model == "encoder:make"
    assert entry.arguments == {"vocabulary": 1000, "width": 64}
    assert entry.buckets.batch == [1, 2, 4]
    assert entry.buckets.sequence == [16, 32, 48, 64]
    assert entry.inputs["input_ids"] == InputSpec(("batch", "sequence"), torch.int64, 0, 999)


def test_fields():
    (entry,) = parse_manifest(GOOD, "m.yaml").entries
    assert entry.name == "make"
    assert entry.inputs == "app.models:inputs"
    assert entry.dtype is torch.bfloat16
    assert entry.options == {"deterministic": True, "compile_priority": "warm-up"}
    assert entry.buckets.shapes()[0] == Shape(4, 48)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("version: 1", "version: 7", "m.yaml:1: version: 7 is of another release"),
        ("version: 1\n", "", "m.yaml:1: version: it is missing"),
        ("app.models:make", "app.models", "m.yaml:3: models[0].model: 'app.models': expected"),
        ("    batch: [4, 1]\n", "", "m.yaml:3: models[0].batch: it is missing"),
        ("[4, 1]", "[4, 0]", "m.yaml:5: models[0].batch: 0: expected a whole number above 0"),
        ("[4, 1]", "four", "m.yaml:5: models[0].batch: 'four': expected a list of sizes"),
        ("high: 48", "high: 8", "m.yaml:7: models[0].sequence: low 16 is above high 8"),
        (", step: 16", "", "m.yaml:7: models[0].sequence.linear.step: it is missing"),
        (
            "step: 16",
            "stop: 16",
            "m.yaml:7: models[0].sequence.linear.step: it is missing; is `stop` meant?",
        ),
        ("linear", "cubic", "m.yaml:7: models[0].sequence: expected a list of sizes, `linear"),
        ("dtype: bfloat16", "dtype: int8", "m.yaml:8: models[0].dtype: 'int8': expected one of"),
        ("deterministic", "determined", "m.yaml:9: models[0].options: "),
        ("dtype:", "dtyp:", "m.yaml:8: models[0].dtyp: unknown; expected one of model, "),
        ("batch: [4, 1]", "batch: [4\n    x: ]", "m.yaml:6: not YAML: "),
        ("models:\n", "models: []\nmodel:\n", "m.yaml:2: models: expected a list of at least one"),
        (GOOD, "", "m.yaml:1: the file is empty"),
        (GOOD, "version: 1\n", "m.yaml:1: models: it is missing, and so is `recorded`"),
        ("version: 1", "version: 1\nversion: 1", "m.yaml:2: version: it is there twice"),
        (
            "inputs: app.models:inputs",
            "inputs: {x: {shape: [batch, length], dtype: int64}}",
            "m.yaml:4: models[0].inputs.x.shape: 'length': expected whole numbers and batch or",
        ),
        (
            "models:\n",
            "recorded:\n  - {graph: g, key: abc}\nmodels:\n",
            "m.yaml:3: recorded[0].key: 'abc': expected a front-end key of 64 hexadecimal digits",
        ),
        (
            "{low: 16, high: 48, step: 16}",
            "{low: 1, high: 1000000000000, step: 1}",
            "m.yaml:7: models[0].sequence: step 1: that makes 1000000000000 sizes up to",
        ),
        (
            "batch: [4, 1]",
            "batch: {linear: {low: 1, high: 90000, step: 1}}",
            "m.yaml:5: models[0].batch: 90000 batch sizes and 3 sequence sizes make 270000 shapes",
        ),
        (
            "batch: [4, 1]",
            "batch: {exponential: {low: 1, high: 9, count: 1000000000000}}",
            "m.yaml:5: models[0].batch: count 1000000000000: expected at most 1000000",
        ),
    ],
)
def test_errors_name_line_and_field(old, new, text):
    assert old in GOOD
    with pytest.raises(ManifestError) as error:
        parse_manifest(GOOD.replace(old, new), "m.yaml")
    assert text in str(error.value)


def test_all_grids_together_are_bounded():
    many = GOOD.replace("batch: [4, 1]", "batch: {linear: {low: 1, high: 20000, step: 1}}")
    entry = many.partition("models:\n")[2]
    assert len(parse_manifest(many, "m.yaml").entries[0].buckets) == 60_000
    second = entry.replace("  - model: app.models:make\n", "  - model: app.models:another\n")
    text = "m.yaml:3: models: they have 120000 shapes together, at most 100000"
    with pytest.raises(ManifestError, match=text):
        parse_manifest(many + second, "m.yaml")


def test_a_manifest_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="it is a FIFO and not a regular file"):
        read_manifest(tmp_path / "fifo")
    with pytest.raises(OSError, match="it is a device and not a regular file"):
        read_manifest(tmp_path / "zero")
    with pytest.raises(OSError, match="it is a folder and not a regular file"):
        read_manifest(tmp_path)
    (tmp_path / "latin").write_bytes(b"version: 1\nmodels: \xff\n")
    with pytest.raises(ManifestError, match="latin:2: not UTF-8: invalid start byte"):
        read_manifest(tmp_path / "latin")


def test_two_models_of_one_name():
    twice = GOOD + GOOD.partition("models:\n")[2]
    with pytest.raises(ManifestError, match="m.yaml:10: name: there are two models 'make'"):
        parse_manifest(twice, "m.yaml")


def test_inputs_are_made():
    ids = tensor(InputSpec(("batch", "sequence"), torch.int64, 3, 5), "ids", Shape(8, 100))
    assert ids.shape == (8, 100)
    assert ids.unique().tolist() == [3, 4, 5]
    x = tensor(InputSpec(("batch", 7), torch.bfloat16), "x", Shape(2))
    assert x.shape == (2, 7)
    assert x.dtype is torch.bfloat16
    assert x.unique().numel() > 5
    assert x.equal(tensor(InputSpec(("batch", 7), torch.bfloat16), "x", Shape(2)))


LINEAR = """
version: 1
parallel: 8
models:
  - name: linear
    model: planned:make
    inputs:
      input: {shape: [batch, sequence, 8], dtype: float32}
    batch: [64, 65, 66]
    sequence: [128]
"""


def test_what_does_not_fit_counts_the_inputs_that_wait(tmp_path, monkeypatch):
    (tmp_path / "planned.py").write_text("import torch\ndef make(): return torch.nn.Linear(8, 8)\n")
    (tmp_path / "linear.yaml").write_text(LINEAR)
    monkeypatch.syspath_prepend(tmp_path)
    manifest = read_manifest(tmp_path / "linear.yaml")
    (entry,) = make_plan(manifest, {}, 10**9).entries
    together = entry.weight_bytes + entry.call_bytes
    assert entry.waiting_bytes > 0
    free = together + entry.waiting_bytes - 1
    (refused,) = make_plan(manifest, {}, free).entries
    assert refused.waiting_bytes == entry.waiting_bytes
    assert f"66x128 takes {free + 1} bytes, {free} are free" in refused.problem
