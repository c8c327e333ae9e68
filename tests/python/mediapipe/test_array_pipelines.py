"""Pipelines over files of arrays, and crops and flips of volumes, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from media_pipelines import Pipeline, drain

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
    from habana_dataloader import _native

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
