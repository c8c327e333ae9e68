"""When HabanaDataLoader is PyTorch's loader, and what it says then (DATA-3, DATA-5 to DATA-8)."""

from __future__ import annotations

import shutil

import pytest
import torch
from photograph_folders import photograph_folder, vision_package  # noqa: F401  fixtures
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from habana_dataloader import HabanaDataLoader, conditions

PARAMETERS = {"batch_size": 4, "num_workers": 8, "pin_memory": True}


def work(worker):
    pass


def as_list(samples):
    return samples


def transform_of(vision):
    names = vision.transforms
    return names.Compose([names.CenterCrop(32), names.ToTensor(), vision.normalize])


def first_lines(capfd):
    return capfd.readouterr().out.splitlines()[:2]


def expected(message):
    return [
        f"Failed to initialize Habana Dataloader, error: {message}",
        "Running with PyTorch Dataloader",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shuffle": True}, "'shuffle' must be False and is True"),
        ({"num_workers": 2}, "'num_workers' must be 8 and is 2"),
        ({"pin_memory": False}, "'pin_memory' must be True and is False"),
        ({"timeout": 5}, "'timeout' must be 0 and is 5"),
        ({"prefetch_factor": 4}, "'prefetch_factor' must be 2 and is 4"),
        ({"persistent_workers": True}, "'persistent_workers' must be False and is True"),
        ({"in_order": False}, "'in_order' must be True and is False"),
        ({"collate_fn": as_list}, f"'collate_fn' must be None and is {as_list!r}"),
        ({"worker_init_fn": work}, f"'worker_init_fn' must be None and is {work!r}"),
        (
            {"multiprocessing_context": "fork"},
            "'multiprocessing_context' must be None and is 'fork'",
        ),
        ({"batch_size": None}, "'batch_size' must be a number and is None"),
    ],
    # The messages hold addresses, which differ from process to process.
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_parameters_are_the_native_loaders(vision, folder, capfd, changes, message):
    dataset = vision.datasets.ImageFolder(folder, transform_of(vision))
    loader = HabanaDataLoader(dataset, **{**PARAMETERS, **changes})
    assert loader.fallback_activated
    assert capfd.readouterr().out.splitlines() == expected(message)


def test_objects_that_must_be_none(vision, folder, capfd):
    dataset = vision.datasets.ImageFolder(folder, transform_of(vision))
    generator = torch.Generator()
    assert HabanaDataLoader(dataset, **PARAMETERS, generator=generator).fallback_activated
    assert first_lines(capfd) == expected(f"'generator' must be None and is {generator!r}")
    batches = BatchSampler(SequentialSampler(dataset), 4, True)
    HabanaDataLoader(dataset, num_workers=8, pin_memory=True, batch_sampler=batches)
    assert first_lines(capfd) == expected(f"'batch_sampler' must be None and is {batches!r}")


def test_positional_parameters_and_defaults_count(vision, folder, capfd):
    dataset = vision.datasets.ImageFolder(folder, transform_of(vision))
    accepted = HabanaDataLoader(dataset, 4, False, None, None, 8, None, True, prefetch_factor=2)
    assert not accepted.fallback_activated and capfd.readouterr().out == ""
    HabanaDataLoader(dataset, pin_memory=True)
    assert first_lines(capfd) == expected("'num_workers' must be 8 and is 0")
    with pytest.raises(TypeError, match="batchsize"):
        HabanaDataLoader(dataset, batchsize=4)


def test_training_goes_on_with_the_native_loader(vision, folder, capfd):
    """P6 of the guide: the same batches, from another number of workers."""
    dataset = vision.datasets.ImageFolder(folder, transform_of(vision))
    ours = HabanaDataLoader(dataset, batch_size=20, num_workers=2, pin_memory=True)
    assert first_lines(capfd) == expected("'num_workers' must be 8 and is 2")
    for one, other in zip(ours, DataLoader(dataset, batch_size=20), strict=True):
        assert one[0].device.type == "cpu"
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


def test_other_data_sets(vision, folder, capfd, tmp_path):
    HabanaDataLoader(TensorDataset(torch.ones(8)), **PARAMETERS)
    found = "'dataset' must be a torchvision.datasets.ImageFolder and is a TensorDataset"
    assert first_lines(capfd) == expected(found)

    class Twice(vision.datasets.ImageFolder):
        def __getitem__(self, index):
            return super().__getitem__(index // 2)

    HabanaDataLoader(Twice(folder, transform_of(vision)), **PARAMETERS)
    found = "'dataset' must take its items as ImageFolder does, and Twice does not"
    assert first_lines(capfd) == expected(found)

    dataset = vision.datasets.ImageFolder(folder, transform_of(vision), target_transform=str)
    HabanaDataLoader(dataset, **PARAMETERS)
    assert first_lines(capfd) == expected("'target_transform' of the data set must be None")

    dataset = vision.datasets.ImageFolder(folder, transform_of(vision))
    dataset.loader = open
    HabanaDataLoader(dataset, **PARAMETERS)
    found = "the data set must load images with Pillow, by its default loader"
    assert first_lines(capfd) == expected(found)

    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    strange = tmp_path / "class0/picture.png"
    strange.write_bytes(b"")
    HabanaDataLoader(vision.datasets.ImageFolder(tmp_path, transform_of(vision)), **PARAMETERS)
    found = f"files must be .jpg or .jpeg, and the data set has {strange}"
    assert first_lines(capfd) == expected(found)


def test_without_torchvision(vision, folder, capfd, monkeypatch):
    monkeypatch.setattr(conditions, "torchvision", None)
    dataset = vision.datasets.ImageFolder(folder, transform_of(vision))
    assert len(next(iter(HabanaDataLoader(dataset, **PARAMETERS)))) == 2
    found = "'dataset' must be a torchvision ImageFolder, and there is no torchvision"
    assert first_lines(capfd) == expected(found)


def test_other_transforms(vision, folder, capfd):
    names = vision.transforms
    bicubic = names.InterpolationMode.BICUBIC
    end = [names.ToTensor(), vision.normalize]
    ends = "transforms must end with ToTensor, or with ToTensor and Normalize"
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    other_mean = names.Normalize([0.5, 0.456, 0.406], std)
    other_std = names.Normalize(mean, [1.0, 1.0, 1.0])
    cases = [
        (names.ToTensor(), "the data set's transform must be transforms.Compose and is ToTensor"),
        (None, "the data set's transform must be transforms.Compose and is NoneType"),
        ([names.ColorJitter(), *end], "the transform ColorJitter is not supported"),
        ([names.CenterCrop(9)], ends),
        ([names.ToTensor(), names.CenterCrop(9), vision.normalize], ends),
        ([vision.normalize, names.ToTensor()], ends),
        (
            [names.Resize(9, interpolation=bicubic), *end],
            "'interpolation' of Resize must be BILINEAR",
        ),
        (
            [names.RandomResizedCrop(9, interpolation=bicubic), *end],
            "'interpolation' of RandomResizedCrop must be BILINEAR",
        ),
        ([names.Resize(9, max_size=20), *end], "'max_size' of Resize must be None"),
        (
            [names.RandomHorizontalFlip(0.3), *end],
            "'p' of RandomHorizontalFlip must be 0.5 and is 0.3",
        ),
        ([names.ToTensor(), other_mean], f"'mean' of Normalize must be {mean} and is "),
        ([names.ToTensor(), other_std], f"'std' of Normalize must be {std} and is [1.0, 1.0, 1.0]"),
    ]
    for parts, message in cases:
        transform = names.Compose(parts) if isinstance(parts, list) else parts
        loader = HabanaDataLoader(vision.datasets.ImageFolder(folder, transform), **PARAMETERS)
        first, second = first_lines(capfd)
        assert loader.fallback_activated
        assert first.startswith(expected(message)[0])
        assert second == expected(message)[1]


def test_transforms_that_change_later_are_followed(vision, folder, capfd):
    names = vision.transforms
    dataset = vision.datasets.ImageFolder(folder, transform_of(vision))
    loader = HabanaDataLoader(dataset, **PARAMETERS)
    dataset.transform = names.Compose([names.CenterCrop(16), names.ToTensor()])
    assert next(iter(loader))[0].shape == (4, 3, 16, 16)
    dataset.transform = names.ToTensor()
    iter(loader)
    assert first_lines(capfd)[1] == "Running with PyTorch Dataloader"


def test_another_default_dtype(vision, folder, capfd):
    torch.set_default_dtype(torch.float64)
    try:
        HabanaDataLoader(vision.datasets.ImageFolder(folder, transform_of(vision)), **PARAMETERS)
    finally:
        torch.set_default_dtype(torch.float32)
    assert first_lines(capfd) == expected("PyTorch's default dtype must be torch.float32")
