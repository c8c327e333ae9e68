#!/usr/bin/env python3
"""HabanaDataLoader beside PyTorch's DataLoader with 8 workers, on photographs from packages.

    data_loader.py [--rounds N] [--images N] [--batch N] [--train STEPS] [--json]

The images are the five JPEG files of scikit-learn and scikit-image (640 x 427 to 1411 x 1411
pixels), each many times, in the page cache. Transforms are those of ResNet training. Every figure
comes from a process of its own; contenders alternate within each round:

- native: torch.utils.data.DataLoader;
- ours: HabanaDataLoader;
- exact: HabanaDataLoader with HPU_DATA_LOADER_SCALED=0, whose pixels are the native loader's;
- media: a pipeline of habana_frameworks.mediapipe with the same steps.

Images per second count from iter() until the last batch is on hpu, with the start of workers. With
--train a ResNet-18 learns on hpu: the share of a step that it waits for its batch, and the time of
a step beside one without a loader. torchvision is needed (docs/data_loader.md says how to get it).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tables import number, table

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CONTENDERS = ("native", "ours", "exact", "media")
WARM_STEPS = 3
Figures = dict[str, float]


def photographs() -> list[Path]:
    import skimage
    import sklearn

    first = Path(sklearn.__file__).parent / "datasets/images"
    second = Path(skimage.__file__).parent / "data"
    names = ("hubble_deep_field", "retina", "rocket")
    return [first / "china.jpg", first / "flower.jpg", *(second / f"{n}.jpg" for n in names)]


def make_folder(root: Path, count: int) -> None:
    """Links to `count` images, a class for each photograph."""
    paths = photographs()
    for i in range(count):
        path = paths[i % len(paths)]
        folder = root / path.stem
        folder.mkdir(exist_ok=True)
        (folder / f"{i:06}.jpg").symlink_to(path)


def pipeline_of(args: argparse.Namespace) -> Any:
    from habana_frameworks.mediapipe import fn
    from habana_frameworks.mediapipe.media_types import dtype, imgtype, randomCropType
    from habana_frameworks.mediapipe.mediapipe import MediaPipe
    from habana_frameworks.mediapipe.plugins.iterator_pytorch import HPUResnetPytorchIterator

    class Training(MediaPipe):
        def definegraph(self) -> Any:
            jpegs, labels = fn.ReadImageDatasetFromDir(
                dir=args.folder, seed=0, drop_remainder=True
            )()
            images = fn.ImageDecoder(
                output_format=imgtype.RGB_P,
                resize=[224, 224],
                random_crop_type=randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP,
                seed=0,
            )(jpegs)
            flips = fn.CoinFlip(seed=0)(fn.Constant(constant=0.5)())
            images = fn.RandomFlip(horizontal=1)(images, flips)
            mean, inv_std = (
                fn.MediaConst(data=values, shape=[1, 1, 3], dtype=dtype.FLOAT32)()
                for values in ([255 * m for m in MEAN], [1 / (255 * s) for s in STD])
            )
            norm = fn.CropMirrorNorm(crop_w=224, crop_h=224, dtype=dtype.FLOAT32)
            return norm(images, mean, inv_std), labels

    pipe = Training(device="hpu", prefetch_depth=6, batch_size=args.batch)
    return HPUResnetPytorchIterator(mediapipe=pipe)


def loader_of(contender: str, args: argparse.Namespace) -> Any:
    if contender == "media":
        return pipeline_of(args)
    from habana_dataloader import HabanaDataLoader
    from habana_dataloader.vision import torchvision

    if torchvision is None:
        raise SystemExit("this benchmark needs torchvision; docs/data_loader.md says how to get it")
    names = torchvision.transforms
    transform = names.Compose(
        [
            names.RandomResizedCrop(224),
            names.RandomHorizontalFlip(),
            names.ToTensor(),
            names.Normalize(MEAN, STD),
        ]
    )
    dataset = torchvision.datasets.ImageFolder(args.folder, transform)
    kind = torch.utils.data.DataLoader if contender == "native" else HabanaDataLoader
    torch.manual_seed(0)
    return kind(
        dataset,
        batch_size=args.batch,
        sampler=torch.utils.data.RandomSampler(dataset),
        num_workers=8,
        pin_memory=True,
        drop_last=True,
    )


def processor_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)


def measure_loading(contender: str, args: argparse.Namespace) -> Figures:
    loader = loader_of(contender, args)
    torch.ones(1, device="hpu").cpu()
    used, started = processor_seconds(), time.perf_counter()
    images = 0
    for batch in loader:
        placed = [tensor.to("hpu", non_blocking=True) for tensor in batch]
        images += len(placed[1])
    torch.hpu.synchronize()
    seconds = time.perf_counter() - started
    used = processor_seconds() - used
    return {"images_per_s": images / seconds, "processor_ms_per_image": used / images * 1e3}


def endless(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def measure_training(contender: str, args: argparse.Namespace) -> Figures:
    """Steps of SGD; `fixed` takes the first batch for all."""
    from habana_dataloader.vision import torchvision

    batches = endless(loader_of("native" if contender == "fixed" else contender, args))
    if contender == "fixed":
        first = [tensor.to("hpu") for tensor in next(batches)]
        batches.close()  # type: ignore[attr-defined]
        batches = iter(lambda: first, None)
    model = torchvision.models.resnet18(num_classes=5).to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    @torch.compile(backend="hpu_backend")
    def loss_of(images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(images), targets)

    waits, steps = [], []
    for _ in range(WARM_STEPS + args.train):
        started = time.perf_counter()
        images, targets = next(batches)
        images = images.to("hpu", non_blocking=True)
        targets = targets.to("hpu", non_blocking=True)
        torch.hpu.synchronize()
        waits.append(time.perf_counter() - started)
        optimizer.zero_grad()
        loss_of(images, targets).backward()
        optimizer.step()
        torch.hpu.synchronize()
        steps.append(time.perf_counter() - started)
    step = statistics.median(steps[WARM_STEPS:])
    return {"step_s": step, "wait_share": statistics.median(waits[WARM_STEPS:]) / step}


def in_process(contender: str, args: argparse.Namespace) -> Figures:
    command = [sys.executable, "-W", "ignore", __file__, "--one", contender]
    command += ["--folder", args.folder, "--batch", str(args.batch), "--train", str(args.train)]
    scaled = "0" if contender == "exact" else "1"
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "HPU_DATA_LOADER_SCALED": scaled},
    )
    for line in done.stdout.splitlines():
        if line.startswith("FIGURES "):
            figures: Figures = json.loads(line.removeprefix("FIGURES "))
            return figures
    raise SystemExit(f"{contender}: no figures\n{done.stdout}\n{done.stderr}")


def rows(found: dict[str, list[Figures]], keys: list[str]) -> list[list[str]]:
    def middle(contender: str, key: str) -> float:
        return statistics.median(run[key] for run in found[contender])

    lines = []
    for contender in found:
        values = [middle(contender, key) for key in keys]
        ratios = [value / middle("native", key) for value, key in zip(values, keys, strict=True)]
        lines.append([contender, *map(number, values), *map(number, ratios)])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--train", type=int, default=0, help="steps of ResNet-18; 0: only loading")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    measure = measure_training if args.train else measure_loading
    if args.one:
        print("FIGURES", json.dumps(measure(args.one, args)))
        return
    contenders = ("native", "ours", "fixed") if args.train else CONTENDERS
    found: dict[str, list[Figures]] = {contender: [] for contender in contenders}
    with tempfile.TemporaryDirectory(prefix="hpu-photographs-") as folder:
        make_folder(Path(folder), args.images)
        args.folder = folder
        for round_number in range(args.rounds):
            for contender in contenders:
                print(f"round {round_number + 1}, {contender}", file=sys.stderr)
                found[contender].append(in_process(contender, args))
    if args.json:
        print(json.dumps({"load": os.getloadavg()[0], "batch": args.batch, "results": found}))
        return
    keys = list(found["native"][0])
    print("\n".join(table(["", *keys, *(f"{key} / native" for key in keys)], rows(found, keys))))


if __name__ == "__main__":
    main()
