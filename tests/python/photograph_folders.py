"""Fixtures of the data loader's tests: folders of small photographs, and torchvision, the real one
where it is installed and always the part of it in small_vision.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import small_vision
from photographs import jpeg_of, photograph_paths, read_rgb

from habana_dataloader import conditions
from habana_dataloader.vision import torchvision

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.fixture(scope="session", name="folder")
def photograph_folder(tmp_path_factory):
    """42 images of many sizes in three classes; some are grey, CMYK or progressive."""
    root = tmp_path_factory.mktemp("photographs")
    images = [read_rgb(path.read_bytes()).resize((300, 240)) for path in photograph_paths()]
    for number in range(42):
        box = (number, 2 * number, 300 - 3 * number, 240 - number)
        image = images[number % 5].crop(box)
        image = image.convert({3: "L", 4: "CMYK"}.get(number % 7, "RGB"))
        (root / f"class{number % 3}").mkdir(exist_ok=True)
        path = root / f"class{number % 3}" / f"{number:02}{('.jpg', '.JPEG')[number % 2]}"
        path.write_bytes(jpeg_of(image, progressive=number % 5 == 0))
    return root


@pytest.fixture(params=["torchvision", "small"], name="vision")
def vision_package(request, monkeypatch):
    """The package that the loader takes for torchvision, and `normalize` as programs for Gaudi have
    it."""
    names: Any = small_vision if request.param == "small" else torchvision
    if names is None:
        pytest.skip("torchvision is not installed (docs/data_loader.md says how)")
    monkeypatch.setattr(conditions, "torchvision", names)
    return SimpleNamespace(
        datasets=names.datasets,
        transforms=names.transforms,
        normalize=names.transforms.Normalize(MEAN, STD),
    )
