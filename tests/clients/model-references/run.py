"""Examples of Model-References on hpu, unchanged, with data made here.

    run.py SOURCES [--list] [CASE ...]

SOURCES is the repository's tree. The examples run in a copy, because they write beside themselves.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import made_data
import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cases import Case, expect, run  # noqa: E402

_LAZY = {"PT_HPU_LAZY_MODE": "1"}
_MIGRATION = {"PT_HPU_GPU_MIGRATION": "1"}
_HELLO = "examples/computer_vision/hello_world"
_MIGRATED_MNIST = "examples/gpu_migration/simple_examples/mnist"
_MIGRATED_VISION = "examples/gpu_migration/computer_vision/classification/torchvision"
_VISION = "computer_vision/classification/torchvision"
_BERT = "nlp/bert"


def _numbers(pattern: str, output: str) -> list[float]:
    return [float(text) for text in re.findall(pattern, output)]


def _falls(pattern: str, share: float, output: str) -> None:
    """The last of the numbers must be below this share of the first one."""
    found = _numbers(pattern, output)
    expect(len(found) > 1, f"the output has {len(found)} numbers after {pattern!r}")
    expect(found[-1] < share * found[0], f"{found} do not fall to {share} of the first one")


def _reaches(pattern: str, least: float, output: str) -> None:
    found = _numbers(pattern, output)
    expect(found and found[-1] >= least, f"the numbers after {pattern!r} are {found}")


def _mnist(data: Path) -> list[Case]:
    options = f"--data-path {data} --batch-size 64 --max-training-step 12 --log-interval 2 --hpu"
    accurate = partial(_reaches, r"Average Acc ([\d.]+)", 95)
    migrated = partial(_reaches, r"Accuracy: (\d+)/1000", 950)
    forms: dict[str, tuple[str, dict[str, str]]] = {
        "mnist": ("--autocast", {}),
        "mnist-compiled": ("--autocast --use-torch-compile", {}),
        "mnist-lazy": ("", _LAZY),
    }
    made = [
        Case(name, ["mnist.py", *options.split(), *more.split()], accurate, Path(_HELLO), variables)
        for name, (more, variables) in forms.items()
    ]
    learnt = partial(_reaches, r"testing accuracy is ([\d.]+)", 95)
    for name, more in (("migrated-mnist", {}), ("migrated-mnist-lazy", _LAZY)):
        command = ["main.py", "--epochs", "1"]
        made.append(Case(name, command, migrated, Path(_MIGRATED_MNIST), {**_MIGRATION, **more}))
    return [*made, Case("example", ["example.py"], learnt, Path(_HELLO))]


def _vision(images: Path, output: Path) -> list[Case]:
    common = f"--data-path {images} --model resnet18 --batch-size 8 --epochs 1 --print-freq 1"
    accurate = partial(_reaches, r"Acc@1 ([\d.]+)", 50)
    ends = partial(_reaches, r"Acc@1 ([\d.]+)", 0)
    resnet = f"train.py {common} --device hpu --workers 8 --output-dir {output} --autocast"
    migrated = f"train.py {common} --workers 2 --output-dir {output}"
    return [
        Case("resnet-compiled", f"{resnet} --use_torch_compile".split(), accurate, Path(_VISION)),
        Case("resnet-lazy", resnet.split(), accurate, Path(_VISION), _LAZY),
        Case("migrated-resnet", migrated.split(), ends, Path(_MIGRATED_VISION), _MIGRATION),
    ]


def _bert(data: Path) -> list[Case]:
    model = f"--bert_model=bert-base-uncased --config_file={data}/bert_config.json --use_habana"
    common = (
        f"run_pretraining.py --do_train {model} --use_fused_lamb --learning_rate=0.01"
        f" --max_seq_length=32 --max_predictions_per_seq=5 --warmup_proportion=0.1"
        f" --num_steps_per_checkpoint=200 --json-summary={data}/pretraining.json --max_steps=6"
        f" --train_batch_size=16 --output_dir={data}"
    )
    packed = (
        f"{common}/packed_out --input_dir={data}/packed --autocast --use_torch_compile"
        " --gradient_accumulation_steps=2 --allreduce_post_accumulation"
        " --allreduce_post_accumulation_fp16"
    )
    plain = f"{common}/plain_out --input_dir={data}/plain --enable_packed_data_mode=False"
    squad = (
        f"run_squad.py --do_train --do_predict {model} --vocab_file={data}/vocab.txt"
        f" --init_checkpoint={data}/nothing.pt"
        f" --train_file={data}/squad.json --predict_file={data}/squad.json --do_lower_case"
        f" --use_fused_adam --train_batch_size=4 --predict_batch_size=4 --max_seq_length=64"
        f" --doc_stride=32 --num_train_epochs=2 --output_dir={data}/squad_out --skip_checkpoint"
        f" --json-summary={data}/squad_log.json --autocast --use_torch_compile"
    )
    trained = partial(_reaches, r"average_loss : ([\d.]+)", 0)
    answered: Callable[[str], None] = partial(_reaches, r"e2e_train_time : ([\d.]+)", 0)
    return [
        Case("bert-packed-compiled", packed.split(), trained, Path(_BERT)),
        Case("bert-lazy", plain.split(), trained, Path(_BERT), _LAZY),
        Case("squad-compiled", squad.split(), answered, Path(_BERT)),
    ]


def _make_data(folder: Path, sources: Path) -> None:
    made_data.mnist(folder / "mnist" / "MNIST" / "raw")
    made_data.photographs(folder / "images")
    made_data.bert_files(folder)
    made_data.pretraining(folder)
    made_data.questions(folder / "squad.json")
    # A checkpoint that leaves every weight as it was drawn.
    torch.save({"model": {}}, folder / "nothing.pt")
    for example in (_HELLO, _MIGRATED_MNIST):
        (sources / example / "data").symlink_to(folder / "mnist")
    (sources / _HELLO / "checkpoints").mkdir()


def main(sources: Path, arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder, copied = Path(name) / "data", Path(name) / "PyTorch"
        shutil.copytree(sources / "PyTorch", copied)
        folder.mkdir()
        _make_data(folder, copied)
        found = [
            *_mnist(folder / "mnist"),
            *_vision(folder / "images", folder / "resnet"),
            *_bert(folder),
        ]
        return run([replace(c, folder=copied / str(c.folder)) for c in found], arguments)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
