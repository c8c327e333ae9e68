"""Pipelines over folders of photographs beside Pillow and torch (docs/media_pipeline.md)."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest
import torch
from media_pipelines import Pipeline, drain
from photograph_folders import photograph_folder  # noqa: F401  fixture
from photographs import photograph_paths, read_rgb

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype, ftype, imgtype, randomCropType
from habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes import media_function

MEAN = np.array([0.485, 0.456, 0.406], np.float32) * 255
INV_STD = 1 / (np.array([0.229, 0.224, 0.225], np.float32) * 255)
FILTERS = {
    ftype.BI_LINEAR: PIL.Image.Resampling.BILINEAR,
    ftype.BICUBIC: PIL.Image.Resampling.BICUBIC,
    ftype.LANCZOS: PIL.Image.Resampling.LANCZOS,
    ftype.BOX: PIL.Image.Resampling.BOX,
    ftype.NEAREST: PIL.Image.Resampling.NEAREST,
}


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Images are decoded at their whole resolution, so that the pixels are Pillow's."""
    monkeypatch.setenv("HPU_DATA_LOADER_SCALED", "0")


def files_of(folder):
    """(image, label) of every file in the reader's order without shuffling."""
    return [
        (read_rgb(path.read_bytes()), label)
        for label, name in enumerate(sorted(p.name for p in folder.iterdir()))
        for path in sorted((folder / name).iterdir())
    ]


def resized(image, size, kind=ftype.BI_LINEAR):
    return np.asarray(image.resize(size, FILTERS[kind]))


def normalized(pixels):
    """[3, height, width] of what CropMirrorNorm makes of [height, width, 3]."""
    return ((pixels.astype(np.float32) - MEAN) * INV_STD).transpose(2, 0, 1)


class Evaluation(Pipeline):
    def definegraph(self):
        jpegs, labels = fn.ReadImageDatasetFromDir(
            dir=str(self.folder), format="JPEG", shuffle=False, label_dtype=dtype.UINT32
        )()
        images = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[64, 48])(jpegs)
        mean = fn.MediaConst(data=MEAN, shape=[1, 1, 3], dtype=dtype.FLOAT32)()
        inv_std = fn.MediaConst(data=INV_STD, shape=[1, 1, 3], dtype=dtype.FLOAT32)()
        norm = fn.CropMirrorNorm(
            crop_w=40, crop_h=32, crop_pos_x=0.5, crop_pos_y=0.25, dtype=dtype.FLOAT32
        )
        return norm(images, mean, inv_std), labels


@pytest.mark.parametrize("device", ["cpu", "hpu"])
def test_a_folder_becomes_normalised_batches(folder, device):
    batches = drain(Evaluation(folder, device=device, batch_size=8))
    assert len(batches) == 6  # 42 images
    expected = files_of(folder)
    images = torch.cat([images.cpu() for images, _ in batches]).numpy()
    labels = torch.cat([labels.cpu().view(torch.int32) for _, labels in batches]).tolist()
    assert batches[0][0].device.type == device
    assert batches[0][1].dtype is (torch.uint32 if device == "cpu" else torch.int32)
    for i, (image, label) in enumerate(expected):
        pixels = resized(image, (64, 48))[4:36, 12:52]
        np.testing.assert_allclose(images[i], normalized(pixels), rtol=0, atol=1e-6)
        assert labels[i] == label
    assert len(images) == 48  # the rest are drawn at random
    assert set(labels[42:]) <= {0, 1, 2}


@pytest.mark.parametrize("kind", FILTERS)
def test_filters_are_pillows(folder, kind):
    class Decoding(Pipeline):
        def definegraph(self):
            jpegs, _ = fn.ReadImageDatasetFromDir(dir=str(self.folder), shuffle=False)()
            return fn.ImageDecoder(resize=[73, 190], resampling_mode=kind)(jpegs)

    batches = drain(Decoding(folder, batch_size=14, device="cpu"))
    images = torch.cat([images for (images,) in batches]).numpy()
    assert images.shape == (42, 190, 73, 3)
    for got, (image, _) in zip(images, files_of(folder), strict=True):
        np.testing.assert_array_equal(got, resized(image, (73, 190), kind))


def reader(folder, **options):
    return fn.ReadImageDatasetFromDir(dir=str(folder), **{"shuffle": False, **options})


def constant(data):
    return fn.MediaConst(data=data, shape=[1, 1, 3], dtype=dtype.FLOAT32)()


class Training(Pipeline):
    """Returns what it drew beside the images."""

    seed = 5

    def definegraph(self):
        jpegs, labels = reader(
            self.folder, shuffle=True, seed=self.seed, label_dtype=dtype.INT32, drop_remainder=True
        )()
        windows = fn.CropWindowGen(
            resize_width=40,
            resize_height=56,
            type=randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP,
            scale_min=0.2,
            scale_max=0.9,
            ratio_min=0.5,
            ratio_max=2.0,
            seed=self.seed,
        )(jpegs)
        images = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[40, 56])(jpegs, windows)
        flips = fn.CoinFlip(seed=self.seed)(fn.Constant(constant=0.5, dtype=dtype.FLOAT32)())
        images = fn.RandomFlip(horizontal=1)(images, flips)
        norm = fn.CropMirrorNorm(crop_w=40, crop_h=56, dtype=dtype.FLOAT32)
        return norm(images, constant(MEAN), constant(INV_STD)), labels, windows, flips


def test_random_windows_and_flips_are_those_that_were_drawn(folder):
    by_label = {label: [] for label in range(3)}
    for image, label in files_of(folder):
        by_label[label].append(image)
    flipped = []
    for images, labels, windows, flips in drain(Training(folder, batch_size=7)):
        for got, label, (x, y, w, h), flip in zip(
            images.numpy(), labels.tolist(), windows.tolist(), flips.tolist(), strict=True
        ):
            wide = slice(None, None, -1 if flip else 1)
            found = [
                image
                for image in by_label[label]
                if x + w <= image.size[0]
                and y + h <= image.size[1]
                and np.allclose(
                    got,
                    normalized(resized(image.crop((x, y, x + w, y + h)), (40, 56))[:, wide]),
                    rtol=0,
                    atol=1e-6,
                )
            ]
            assert len(found) == 1
            by_label[label].remove(found[0])
            flipped.append(flip)
    assert len(flipped) == 42 and 5 < sum(flipped) < 37
    assert by_label == {0: [], 1: [], 2: []}  # each file once


def test_a_seed_gives_the_same_numbers_in_each_run(folder):
    def runs(seed, epochs=2):
        pipe = Training(folder, batch_size=14, prefetch_depth=1 + seed % 3)
        pipe.seed = seed
        return drain(pipe, epochs)

    first, again, other = runs(5), runs(5), runs(6)
    for one, two in zip(first, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    for one, two in zip(first[:3], first[3:], strict=True):  # epochs have orders of their own
        assert not torch.equal(one[2], two[2]) and not torch.equal(one[0], two[0])
    assert not torch.equal(first[0][2], other[0][2])


class Shares(media_function):
    """Windows as shares of the images, or in pixels."""

    def __init__(self, params):
        self.shape = params["shape"][::-1]
        self.row = params["priv_params"]["row"]

    def __call__(self):
        return np.tile(self.row, (self.shape[0], 1))


def window_pipeline(folder, row, name):
    class Windows(Pipeline):
        def definegraph(self):
            jpegs, _ = reader(self.folder)()
            windows = fn.MediaFunc(
                func=Shares, shape=[4, 6], dtype=name, priv_params={"row": row}
            )()
            return fn.ImageDecoder(resize=[30, 20])(jpegs, windows)

    return Windows(folder, batch_size=6)


def test_windows_of_the_user_count_in_shares_or_in_pixels(folder):
    shares = drain(window_pipeline(folder, [0.25, 0.5, 0.5, 0.25], dtype.FLOAT32))
    pixels = drain(window_pipeline(folder, [10, 20, 100, 60], dtype.UINT32))
    for i, (image, _) in enumerate(files_of(folder)[:6]):
        width, height = image.size
        x, y, w, h = round(width / 4), round(height / 2), round(width / 2), round(height / 4)
        cut = resized(image.crop((x, y, x + w, y + h)), (30, 20))
        np.testing.assert_array_equal(shares[0][0][i].numpy(), cut)
        cut = resized(image.crop((10, 20, 110, 80)), (30, 20))
        np.testing.assert_array_equal(pixels[0][0][i].numpy(), cut)
    with pytest.raises(ValueError, match=r"the window \[300, 0, 9, 9\] of .*00.jpg reaches beyond"):
        drain(window_pipeline(folder, [300, 0, 9, 9], dtype.UINT32))


def test_the_centre_keeps_the_aspect_of_the_result(folder):
    class Center(Pipeline):
        def definegraph(self):
            jpegs, _ = reader(self.folder)()
            return fn.ImageDecoder(
                resize=[50, 50],
                random_crop_type=randomCropType.CENTER_CROP,
                resampling_mode=ftype.BICUBIC,
            )(jpegs)

    ((images,), *_) = drain(Center(folder, batch_size=14))
    for got, (image, _) in zip(images.numpy(), files_of(folder), strict=False):
        side = min(image.size)
        x, y = (image.size[0] - side) // 2, (image.size[1] - side) // 2
        cut = image.crop((x, y, x + side, y + side))
        np.testing.assert_array_equal(got, resized(cut, (50, 50), ftype.BICUBIC))


def test_every_form_of_a_result(folder):
    """BGR, another crop, bytes and BFLOAT16, of one image decoded once and used several times."""

    class Forms(Pipeline):
        def definegraph(self):
            jpegs, _ = reader(self.folder)()
            images = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[40, 30])(jpegs)
            bgr = fn.ColorSpaceConversion(colorSpaceMode=1)(images)
            flipped = fn.Flip(vertical=1, horizontal=1)(images)
            cut = fn.Crop(crop_w=8, crop_h=9, crop_pos_x=1.0)(flipped)
            small = {"crop_w": 20, "crop_h": 10, "mirror": 1}
            brain = fn.CropMirrorNorm(dtype=dtype.BFLOAT16, **small)
            bytes_ = fn.CropMirrorNorm(**small)
            ones = constant([2, 2, 2])
            means = constant([100, 0, 50])
            fused = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[40, 30])(jpegs)
            turned = fn.ColorSpaceConversion(colorSpaceMode=1)(bytes_(fused, means, ones))
            return (bgr, cut, brain(images, means, ones), bytes_(bgr, means, ones), turned)

    ((bgr, cut, brain, levels, turned), *_) = drain(Forms(folder, batch_size=21))
    assert (brain.dtype, levels.dtype) == (torch.bfloat16, torch.uint8)
    mean = np.array([100, 0, 50])
    for i, (image, _) in enumerate(files_of(folder)[:21]):
        planes = resized(image, (40, 30)).transpose(2, 0, 1)
        np.testing.assert_array_equal(bgr[i].numpy(), planes[::-1])
        np.testing.assert_array_equal(cut[i].numpy(), planes[:, ::-1, ::-1][:, :9, 32:])
        window = planes[:, :10, 19::-1].astype(np.float32)
        scaled = (window - mean[:, None, None]) * 2
        np.testing.assert_array_equal(brain[i].float(), torch.from_numpy(scaled).bfloat16().float())
        clipped = ((window[::-1] - mean[:, None, None]) * 2).clip(0, 255)
        np.testing.assert_array_equal(levels[i].numpy(), clipped)
        clipped = ((window - mean[:, None, None]) * 2).clip(0, 255)[::-1]
        np.testing.assert_array_equal(turned[i].numpy(), clipped)


def test_a_lazy_chain_and_single_steps_give_the_same_pixels(folder):
    """Operators that are fused into decoding give the same as on pixels with two consumers."""

    class Chain(Pipeline):
        shared = False

        def definegraph(self):
            jpegs, _ = reader(self.folder)()
            images = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[40, 30])(jpegs)
            flips = fn.CoinFlip(seed=1)(fn.Constant(constant=0.5)())
            result = fn.RandomFlip(horizontal=1)(images, flips)
            result = fn.ColorSpaceConversion(colorSpaceMode=1)(result)
            result = fn.Crop(crop_w=20, crop_h=16, crop_pos_x=0.3, crop_pos_y=0.9)(result)
            norm = fn.CropMirrorNorm(crop_w=12, crop_h=16, mirror=1, dtype=dtype.FLOAT32)
            result = norm(result, constant(MEAN), constant(INV_STD))
            return (result, images) if self.shared else (result,)

    chains = [Chain(folder, batch_size=21) for _ in range(2)]
    chains[1].shared = True
    fused, single = map(drain, chains)
    for one, two in zip(fused, single, strict=True):
        assert torch.equal(one[0], two[0])


def test_a_damaged_image_is_an_error_of_its_batch(folder, tmp_path):
    for number, path in enumerate(sorted(folder.rglob("*.jp*"))[:6]):
        data = path.read_bytes()
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{number}.jpg").write_bytes(data[:700] if number == 2 else data)

    class Decoding(Pipeline):
        def definegraph(self):
            return fn.ImageDecoder(resize=[20, 20])(reader(self.folder)()[0])

    pipe = Decoding(tmp_path, batch_size=2)
    pipe.build()
    pipe.iter_init()
    assert pipe.run().shape == (2, 20, 20, 3)
    with pytest.raises(OSError, match=r"2.jpg.*Remove it from the data set, or replace it."):
        pipe.run()
    assert pipe.run().as_cpu().as_nparray().shape == (2, 20, 20, 3)
    with pytest.raises(StopIteration):
        pipe.run()
    with pytest.raises(StopIteration):
        pipe.run()


def test_decoding_at_a_lower_resolution_changes_little(monkeypatch, tmp_path):
    """The bound of docs/data_loader.md: 1.25 of 255 levels in the mean."""
    (tmp_path / "a").mkdir()
    for path in photograph_paths():
        (tmp_path / "a" / path.name).write_bytes(path.read_bytes())
    monkeypatch.delenv("HPU_DATA_LOADER_SCALED")

    class Decoding(Pipeline):
        def definegraph(self):
            return fn.ImageDecoder(resize=[200, 150])(reader(self.folder)()[0])

    ((images,),) = drain(Decoding(tmp_path, batch_size=5))
    differences = []
    for got, (image, _) in zip(images.numpy(), files_of(tmp_path), strict=True):
        exact = resized(image, (200, 150)).astype(int)
        differences.append(np.abs(got - exact).mean())
    assert 0 < max(differences) < 1.25
