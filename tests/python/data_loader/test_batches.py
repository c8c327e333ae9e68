"""HabanaDataLoader beside PyTorch's DataLoader with the same seed: the same batches (DATA-1,
DATA-2, DATA-7)."""

from __future__ import annotations

import shutil

import pytest
import torch
from photograph_folders import photograph_folder, vision_package  # noqa: F401  fixtures
from photographs import small_photograph
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

from habana_dataloader import HabanaDataLoader

PARAMETERS = {"num_workers": 8, "pin_memory": True}


def chain(vision, name):
    names = vision.transforms
    parts = {
        "train": [names.RandomResizedCrop(96), names.RandomHorizontalFlip()],
        "evaluate": [names.Resize(110), names.CenterCrop(96)],
        "wide": [names.Resize((64, 80))],
        "padded": [names.CenterCrop((260, 310)), names.RandomHorizontalFlip()],
        "twice": [
            names.RandomHorizontalFlip(),
            names.Resize(70),
            names.RandomResizedCrop((50, 40)),
            names.CenterCrop((61, 30)),
            names.Resize((33, 44)),
        ],
    }[name]
    return names.Compose([*parts, names.ToTensor(), vision.normalize])


def epochs_of(kind, dataset, seed, epochs=1, **parameters):
    """The batches of all epochs on the CPU, and a number drawn afterwards."""
    torch.manual_seed(seed)
    sampler = parameters.pop("sampler", RandomSampler)(dataset)
    loader = kind(dataset, sampler=sampler, **{**PARAMETERS, **parameters})
    batches = []
    for epoch in range(epochs):
        if isinstance(sampler, DistributedSampler):
            sampler.set_epoch(epoch)
        batches += [[tensor.cpu() for tensor in batch] for batch in loader]
    return batches, torch.rand(1).item(), len(loader)


def assert_same_epochs(dataset, **parameters):
    ours, our_number, our_length = epochs_of(HabanaDataLoader, dataset, 7, **parameters)
    theirs, their_number, their_length = epochs_of(DataLoader, dataset, 7, **parameters)
    assert (our_number, our_length, len(ours)) == (their_number, their_length, len(theirs))
    for (images, targets), (their_images, their_targets) in zip(ours, theirs, strict=True):
        assert torch.equal(targets, their_targets)
        assert images.dtype == torch.float32
        assert torch.equal(images, their_images)
    return ours


@pytest.mark.parametrize("name", ["train", "evaluate", "wide", "padded", "twice"])
def test_batches_are_those_of_the_native_loader(vision, folder, name, monkeypatch, capfd):
    """42 images in batches of 2 are more batches than workers have at once."""
    monkeypatch.setenv("HPU_DATA_LOADER_SCALED", "0")
    dataset = vision.datasets.ImageFolder(folder, chain(vision, name))
    assert len(assert_same_epochs(dataset, batch_size=2)) == 21
    assert "Failed to initialize" not in capfd.readouterr().out


def test_every_epoch_and_sampler_is_that_of_the_native_loader(vision, folder, monkeypatch):
    monkeypatch.setenv("HPU_DATA_LOADER_SCALED", "0")
    dataset = vision.datasets.ImageFolder(folder, chain(vision, "train"))

    def second_of_three(data):
        return DistributedSampler(data, num_replicas=3, rank=1, seed=5)

    batches = assert_same_epochs(dataset, epochs=2, batch_size=4, sampler=second_of_three)
    assert [len(targets) for _, targets in batches] == [4, 4, 4, 2] * 2
    assert not torch.equal(batches[0][0], batches[4][0])
    assert len(assert_same_epochs(dataset, batch_size=5, drop_last=True)) == 8


def test_without_normalize_values_are_those_of_to_tensor(vision, folder):
    names = vision.transforms
    transform = names.Compose([names.CenterCrop(80), names.ToTensor()])
    batches = assert_same_epochs(vision.datasets.ImageFolder(folder, transform), batch_size=42)
    assert batches[0][0].min() == 0 and 0.9 < batches[0][0].max() <= 1


def test_a_file_that_is_no_jpeg_is_loaded_by_pillow(vision, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HPU_DATA_LOADER_SCALED", "0")
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    small_photograph().save(tmp_path / "class1/000.jpg", "PNG")
    dataset = vision.datasets.ImageFolder(tmp_path, chain(vision, "train"))
    assert_same_epochs(dataset, batch_size=10)


def test_decoding_at_a_lower_resolution_is_on_by_default(vision, folder, monkeypatch):
    """Images shrink to a quarter and less here; the mean difference is that of test_pixels.py, in
    units of normalised values."""
    names = vision.transforms
    transform = names.Compose([names.Resize((40, 50)), names.ToTensor(), vision.normalize])
    dataset = vision.datasets.ImageFolder(folder, transform)
    fast = epochs_of(HabanaDataLoader, dataset, 7, batch_size=42)[0][0][0]
    monkeypatch.setenv("HPU_DATA_LOADER_SCALED", "0")
    exact = epochs_of(HabanaDataLoader, dataset, 7, batch_size=42)[0][0][0]
    assert 0 < (fast - exact).abs().mean() < 1.25 / 255 / 0.224


def test_batches_are_on_hpu_before_they_are_asked_for(vision, folder):
    dataset = vision.datasets.ImageFolder(folder, chain(vision, "train"))
    iterator = iter(HabanaDataLoader(dataset, batch_size=6, **PARAMETERS))
    batch = next(iterator)
    assert isinstance(batch, list) and [tensor.device.type for tensor in batch] == ["hpu", "hpu"]
    assert batch[0].to("hpu", non_blocking=True) is batch[0]
    for decoding in iterator._decoding:
        assert decoding.batch.wait() is None
    next(iterator)
    ahead = iterator._next
    assert ahead is not None
    ahead._done.synchronize()
    assert next(iterator)[0] is ahead._tensors[0]


def test_batches_stay_in_pinned_memory_on_demand(vision, folder, monkeypatch):
    monkeypatch.setenv("HPU_DATA_LOADER_DEVICE", "cpu")
    dataset = vision.datasets.ImageFolder(folder, chain(vision, "evaluate"))
    for batch in HabanaDataLoader(dataset, batch_size=21, **PARAMETERS):
        assert all(tensor.device.type == "cpu" and tensor.is_pinned() for tensor in batch)
    monkeypatch.setenv("HPU_DATA_LOADER_DEVICE", "cuda")
    with pytest.raises(ValueError, match="HPU_DATA_LOADER_DEVICE must be hpu or cpu"):
        iter(HabanaDataLoader(dataset, batch_size=21, **PARAMETERS))
