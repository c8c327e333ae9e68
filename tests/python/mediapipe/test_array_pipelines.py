"""Pipelines over files of arrays, and crops and flips of volumes, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from media_pipelines import Pipeline, drain

from habana_dataloader import _native
from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype, lastBatchStrategy
from habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes import media_function


@pytest.fixture(name="volumes", scope="module")
def volume_folder(tmp_path_factory):
    """Six volumes [1, depth, height, width] of different sizes with labels."""
    root = tmp_path_factory.mktemp("volumes")
    draw = np.random.default_rng(1)
    arrays = []
    for number in range(6):
        shape = (1, 9 + number, 12, 20 - number)
        image = draw.normal(size=shape).astype(np.float32)
        labels = draw.integers(0, 3, shape).astype(np.uint8)
        order = "F" if number % 2 else "C"
        np.save(root / f"case_{number}_x.npy", np.asarray(image, order=order))
        np.save(root / f"case_{number}_y.npy", labels)
        arrays.append((image, labels))
    return root, arrays


def image_reader(root, **options):
    arguments = {"dir": str(root), "pattern": "case_*_x.npy", "dtype": dtype.FLOAT32}
    return fn.ReadNumpyDatasetFromDir(**{"shuffle": False, **arguments, **options})


class Every(media_function):
    """Flips that follow each other: none, all, the first, ..."""

    CHOICES = ([0, 0], [1, 1], [1, 0])

    def __init__(self, params):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return np.array(self.CHOICES[self.calls - 1], np.uint8)


def test_volumes_are_cropped_and_flipped_as_by_numpy(volumes):
    root, arrays = volumes

    class Volumes(Pipeline):
        def definegraph(self):
            images, labels = fn.ReadNumpyDatasetFromDir(
                num_outputs=2,
                shuffle=False,
                file_list=[sorted(root.glob("*_x.npy")), sorted(root.glob("*_y.npy"))],
                dtype=[dtype.FLOAT32, dtype.UINT8],
                dense=False,
            )()
            window = {"crop_w": 10, "crop_h": 8, "crop_d": 6}
            at = {"crop_pos_x": 0.5, "crop_pos_y": 1.0, "crop_pos_z": 0.25}
            images = fn.Crop(**window, **at, dtype=dtype.FLOAT32)(images)
            flips = fn.MediaFunc(func=Every, shape=[2])()
            images = fn.RandomFlip(depthwise=1, vertical=1, dtype=dtype.FLOAT32)(images, flips)
            images = fn.RandomFlip(horizontal=1)(images, flips)
            patch = fn.BasicCrop(patch_size=[9, 7, 5], center_crop=True, dtype=dtype.UINT8)
            return (
                images,
                patch(labels),
                fn.Reshape(size=[9 * 7, 5, 2], tensorDim=3, dtype=dtype.UINT8)(patch(labels)),
            )

    batches = drain(Volumes(device="hpu", batch_size=2))
    assert len(batches) == 3
    for number, (image, labels) in enumerate(arrays):
        got, got_labels, reshaped = (value[number % 2].cpu() for value in batches[number // 2])
        depth, width = 9 + number, 20 - number
        z, x = int(0.25 * (depth - 6) + 0.5), int(0.5 * (width - 10) + 0.5)
        expected = image[:, z : z + 6, 4:12, x : x + 10]
        if Every.CHOICES[number // 2][number % 2]:
            expected = expected[:, ::-1, ::-1, ::-1]
        np.testing.assert_array_equal(got.numpy(), expected)
        z, x = int(0.5 * (depth - 5) + 0.5), int(0.5 * (width - 9) + 0.5)
        expected = labels[:, z : z + 5, 3:10, x : x + 9]
        np.testing.assert_array_equal(got_labels.numpy(), expected)
        np.testing.assert_array_equal(reshaped.numpy(), expected.reshape(5, 63))


def single(reader):
    class Single(Pipeline):
        def definegraph(self):
            return reader()

    return drain(Single(batch_size=1))


def test_files_of_a_pattern_are_read_in_their_order(volumes):
    root, arrays = volumes
    batches = single(image_reader(root))
    assert len(batches) == 6
    for (got,), (image, _) in zip(batches, arrays, strict=True):
        np.testing.assert_array_equal(got[0].numpy(), image)


def test_slices_share_the_samples(volumes):
    root, arrays = volumes
    sizes = {image.shape: number for number, (image, _) in enumerate(arrays)}
    seen = []
    for index in range(4):
        reader = image_reader(root, shuffle=True, seed=3, num_slices=4, slice_index=index)
        seen.append([sizes[tuple(got[0].shape)] for (got,) in single(reader)])
    assert {len(numbers) for numbers in seen} == {2}
    flat = [number for numbers in seen for number in numbers]
    assert set(flat) == set(range(6))  # two of them twice
    assert len(single(image_reader(root, num_slices=4, slice_index=1, drop_remainder=True))) == 1


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"pad_remainder": True}, [[20, 19, 18, 17], [16, 15, 15, 15]]),
        ({"last_batch_strategy": lastBatchStrategy.PAD}, [[20, 19, 18, 17], [16, 15, 15, 15]]),
        ({"last_batch_strategy": lastBatchStrategy.DROP}, [[20, 19, 18, 17]]),
        ({"drop_remainder": True}, [[20, 19, 18, 17]]),
    ],
)
def test_the_last_batch(volumes, options, sizes):
    root, _ = volumes
    found = []

    class Seen(media_function):
        def __init__(self, params):
            pass

        def __call__(self, images):
            return images

    class Last(Pipeline):
        def definegraph(self):
            images = image_reader(root, **options)()
            cut = fn.Crop(crop_w=1, crop_h=1, crop_d=1, crop_pos_x=1.0)(images)
            return fn.MediaFunc(func=Seen, shape=[1, 1, 1, 1, 4], dtype=dtype.FLOAT32)(cut)

    last = {float(image[0, 0, 0, -1]): image.shape[-1] for image, _ in volumes[1]}
    for (images,) in drain(Last(batch_size=4)):
        found.append([last[value] for value in images.flatten().tolist()])
    assert found == sizes


def test_files_that_do_not_fit_are_named(volumes, tmp_path):
    root, _ = volumes
    with pytest.raises(ValueError, match=r"case_0_y.npy has elements of uint8, and .* float32"):
        single(image_reader(root, pattern="*_y.npy"))
    with pytest.raises(ValueError, match="the data set has no files that fit"):
        single(image_reader(root, pattern="*.txt"))
    whole = (root / "case_0_x.npy").read_bytes()
    for name, data, text in (
        ("short.npy", whole[:-1], r"short.npy ends too early: it describes an array of \(1, 9"),
        ("text.npy", b"text", r"text.npy is no file of numpy's format .npy"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=text):
            single(image_reader(tmp_path, pattern=name))
    with pytest.raises(OSError, match="gone.npy cannot be read"):
        single(image_reader(tmp_path, dir=None, file_list=[str(tmp_path / "gone.npy")]))

    class Mixed(Pipeline):
        def definegraph(self):
            return image_reader(root)()

    with pytest.raises(ValueError, match=r"sample 0 has \(1, 9, 12, 20\), sample 1 has \(1, 10, "):
        drain(Mixed(batch_size=2))

    class TooLarge(Pipeline):
        def definegraph(self):
            return fn.Crop(crop_w=8, crop_h=8, crop_d=12)(image_reader(root)())

    with pytest.raises(ValueError, match=r"fn.Crop cannot cut .* \(12, 8, 8\).*\(9, 12, 20"):
        drain(TooLarge(batch_size=1))


def test_a_window_of_one_array_may_have_any_strides():
    """The copies of native code alone: types of every size, reversed and repeated axes."""
    loader = _native.Loader(1, 2)
    for name in ("uint8", "int16", "float32", "float64"):
        array = np.arange(240).reshape(4, 5, 12).astype(name)
        views = [array[1:, ::-2, 3:9], array[:3, :3, ::2][..., ::-1]]
        views.append(np.broadcast_to(array[0, :3, :1], (3, 3, 6)))
        result = torch.empty(3, 3, 3, 6, dtype=torch.from_numpy(array).dtype)
        assert loader.copy(views, result.data_ptr()).wait() is None
        np.testing.assert_array_equal(result.numpy(), np.stack(views))
    with pytest.raises(ValueError, match="all arrays of a batch have as many elements"):
        loader.copy([array, array[1:]], result.data_ptr())
    with pytest.raises(ValueError, match="a table is for arrays of bytes"):
        loader.copy([array], result.data_ptr(), bytes(256))
    loader.close()


def touching(labels, label):
    """The cuboids of the parts of a label, the largest first, by flooding."""
    left = set(map(tuple, np.argwhere(labels == label).tolist()))
    parts = []
    while left:
        waiting, part = [left.pop()], []
        while waiting:
            z, y, x = waiting.pop()
            part.append((z, y, x))
            for near in (
                (z - 1, y, x),
                (z + 1, y, x),
                (z, y - 1, x),
                (z, y + 1, x),
                (z, y, x - 1),
                (z, y, x + 1),
            ):
                if near in left:
                    left.remove(near)
                    waiting.append(near)
        low, high = np.min(part, axis=0), np.max(part, axis=0) + 1
        parts.append(np.stack([low, high], axis=1).flatten().tolist())
    return sorted(parts, key=lambda p: -(p[1] - p[0]) * (p[3] - p[2]) * (p[5] - p[4]))


def test_connected_parts_are_those_of_a_flood():
    draw = np.random.default_rng(3)
    loader = _native.Loader(1, 2)
    volumes = [
        (draw.random((7, 8, 9)) < share).astype(np.uint8) * draw.integers(1, 3, (7, 8, 9))
        for share in (0.0, 0.2, 0.5, 0.8)
    ]
    volumes = [volume.astype(np.uint8) for volume in volumes]
    volumes.append(volumes[1][::-1, :, ::2])
    for volume, found in zip(volumes, loader.find_blobs(volumes, 1000).result(), strict=True):
        assert [label for label, _ in found] == [n for n in (1, 2) if (volume == n).any()]
        for label, parts in found:
            assert sorted(parts) == sorted(touching(volume, label))
            volumes_of = [(p[1] - p[0]) * (p[3] - p[2]) * (p[5] - p[4]) for p in parts]
            assert volumes_of == sorted(volumes_of, reverse=True)
    assert [len(parts) for _, parts in loader.find_blobs(volumes[1:2], 2).result()[0]] == [2, 2]
    with pytest.raises(ValueError, match="labels are arrays of bytes with three axes"):
        loader.find_blobs([np.zeros((2, 2), np.uint8)], 1)
    loader.close()


@pytest.mark.parametrize("over_sampling", [0.0, 1.0])
def test_random_crops_contain_a_part_of_a_label(tmp_path, over_sampling):
    """Labels of a few parts: one fits into the window, and one is larger than it."""
    parts = {1: [(2, 4, 5, 7, 20, 23), (10, 11, 0, 1, 0, 1)], 2: [(0, 12, 10, 12, 3, 12)]}
    for number in range(4):
        labels = np.zeros((1, 12, 14, 24 + number), np.uint8)
        for label, cuboids in parts.items():
            for z0, z1, y0, y1, x0, x1 in cuboids:
                labels[0, z0:z1, y0:y1, x0:x1] = label
        np.save(tmp_path / f"{number}_y.npy", labels)
        image = np.arange(2 * labels.size, dtype=np.float32).reshape(2, *labels.shape[1:])
        np.save(tmp_path / f"{number}_x.npy", image)

    class Biased(Pipeline):
        def definegraph(self):
            images = image_reader(tmp_path, pattern="*_x.npy")()
            labels = image_reader(tmp_path, pattern="*_y.npy", dtype=dtype.UINT8)()
            crop = fn.RandomBiasedCrop(
                patch_size=[6, 5, 4], over_sampling=over_sampling, seed=8, cache_bboxes=True
            )
            return crop(images, labels)

    kinds, starts = set(), set()
    for batch in drain(Biased(batch_size=2), epochs=12):
        for i, (image, labels, edges) in enumerate(zip(*batch, strict=True)):
            z0, z1, y0, y1, x0, x1 = edges.tolist()
            assert (z1 - z0, y1 - y0, x1 - x0) == (4, 5, 6)
            assert image.shape == (2, 4, 5, 6)
            size = round((float(image[1, 0, 0, 0] - image[0, 0, 0, 0])) / (12 * 14))
            whole = np.zeros((12, 14, size), np.uint8)
            for label, cuboids in parts.items():
                for a, b, c, d, e, f in cuboids:
                    whole[a:b, c:d, e:f] = label
            np.testing.assert_array_equal(labels[0].numpy(), whole[z0:z1, y0:y1, x0:x1])
            assert image[0, 0, 0, 0] == (z0 * 14 + y0) * size + x0
            starts.add((z0, y0, x0))
            inside = [
                (label, k)
                for label, cuboids in parts.items()
                for k, (a, b, c, d, e, f) in enumerate(cuboids)
                if all(
                    (low <= first and last <= high) or (first <= low and high <= last)
                    for low, high, first, last in ((z0, z1, a, b), (y0, y1, c, d), (x0, x1, e, f))
                )
            ]
            kinds.update(inside)
            assert inside or over_sampling == 0
            assert i < 2
    assert len(starts) > 12
    assert kinds == {(1, 0), (1, 1), (2, 0)} or over_sampling == 0
