"""The pixels of habana_dataloader._native beside Pillow's (docs/data_loader.md)."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import PIL
import PIL.Image
import pytest
from photographs import jpeg_of, photograph_paths, read_rgb, run_with_pillow, small_photograph

from habana_dataloader import _native

TALL_FIRST = int(PIL.__version__.split(".")[0]) >= 13
LEVELS = _native.levels()


def run(data: bytes, plan: Any, **options: Any) -> np.ndarray:
    options = {"scaled": False, "tall_first": TALL_FIRST, **options}
    rgb, width, height = _native.run_plan(data, plan, **options)
    return np.frombuffer(rgb, np.uint8).reshape(height, width, 3)


def whole(width: int, height: int) -> Any:
    return False, [(0, 0, width, height, width, height, 0, 0, width, height)]


def random_plan(draw: random.Random, width: int, height: int) -> Any:
    """A box anywhere, enlarged or reduced, seen through a window that may reach beyond."""
    w, h = draw.randint(1, width), draw.randint(1, height)
    box = (draw.randint(0, width - w), draw.randint(0, height - h), w, h)
    size = (draw.randint(1, 300), draw.randint(1, 300))
    return draw.random() < 0.5, [(*box, *size, draw.randint(-9, 9), draw.randint(-9, 9), *size)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", photograph_paths(), ids=lambda path: path.stem)
def test_crops_and_resizes_are_pillows(path, level):
    data = path.read_bytes()
    image = read_rgb(data)
    draw = random.Random(path.stem)
    for _ in range(25):
        plan = random_plan(draw, *image.size)
        np.testing.assert_array_equal(run(data, plan, level=level), run_with_pillow(image, plan))


def test_a_tall_image_is_resized_in_pillows_order():
    image = small_photograph().resize((60, 400))
    orders = set()
    for size in ((30, 100), (30, 380), (59, 200), (90, 300)):
        plan = (False, [(0, 0, 60, 400, *size, 0, 0, *size)])
        given = [
            run(image.tobytes(), plan, size=image.size, tall_first=tall) for tall in (False, True)
        ]
        np.testing.assert_array_equal(given[TALL_FIRST], run_with_pillow(image, plan))
        orders.add(bool((given[0] == given[1]).all()))
    assert orders == {True, False}  # the order of passes matters for some sizes only


@pytest.mark.parametrize("level", LEVELS)
def test_extreme_values_stay_in_range(level):
    for value in (0, 255):
        pixels = np.full((37, 41, 3), value, np.uint8)
        for size in ((3, 5), (41, 37), (100, 90), (1, 1)):
            plan = (False, [(0, 0, 41, 37, *size, 0, 0, *size)])
            assert (run(pixels.tobytes(), plan, size=(41, 37), level=level) == value).all()


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_parts_of_every_subsampling_are_pillows(subsampling, progressive):
    """Upsampling of colours looks beyond a part, whose columns begin at a block."""
    image = small_photograph()
    data = jpeg_of(image, subsampling=subsampling, progressive=progressive)
    decoded = np.asarray(read_rgb(data))
    for x in (0, 1, 7, 8, 15, 16, 17, 100):
        for y in (0, 1, 15, 16, 33, 90):
            for width, height in ((1, 1), (16, 16), (61, 47)):
                got = run(
                    data, (False, [(x, y, width, height, width, height, 0, 0, width, height)])
                )
                np.testing.assert_array_equal(got, decoded[y : y + height, x : x + width])


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_other_colours_become_rgb_as_in_pillow(mode):
    data = jpeg_of(small_photograph().convert(mode))
    assert PIL.Image.open(io.BytesIO(data)).mode == mode
    image = read_rgb(data)
    np.testing.assert_array_equal(run(data, whole(*image.size)), np.asarray(image))
    plan = (True, [(20, 30, 100, 90, 64, 48, 3, 2, 50, 40)])
    np.testing.assert_array_equal(run(data, plan), run_with_pillow(image, plan))


def test_the_orientation_is_ignored_as_in_pillow():
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    data = jpeg_of(small_photograph(), exif=exif)
    image = read_rgb(data)
    assert PIL.Image.open(io.BytesIO(data)).getexif()[0x0112] == 6
    np.testing.assert_array_equal(run(data, whole(*image.size)), np.asarray(image))


def test_stages_follow_each_other():
    data = jpeg_of(small_photograph())
    plan = (
        True,
        [(5, 6, 200, 150, 90, 80, -4, 3, 100, 60), (10, 20, 70, 40, 64, 64, 1, 2, 60, 60)],
    )
    np.testing.assert_array_equal(run(data, plan), run_with_pillow(read_rgb(data), plan))


@pytest.mark.parametrize("path", photograph_paths(), ids=lambda path: path.stem)
def test_decoding_at_a_lower_resolution_changes_little(path):
    """The bound that docs/data_loader.md states: 1.25 of 255 levels in the mean, and 99.9 % of the
    values within 16 levels."""
    data = path.read_bytes()
    width, height = read_rgb(data).size
    draw = random.Random(path.stem)
    differing = 0
    for size in (64, 96, 112, 160) * 6:
        share = draw.uniform(0.3, 1) ** 0.5
        w, h = int(width * share), int(height * share)
        box = (draw.randint(0, width - w), draw.randint(0, height - h), w, h)
        plan = (False, [(*box, size, size, 0, 0, size, size)])
        exact = run(data, plan).astype(int)
        difference = abs(run(data, plan, scaled=True) - exact)
        differing += bool(difference.any())
        assert difference.mean() < 1.25
        assert np.percentile(difference, 99.9) <= 16
    assert differing > 0


def test_one_and_a_half_pixels_remain_for_each_result():
    data = jpeg_of(small_photograph())  # 237 x 171
    for size, same in ((80, True), (57, True), (56, False)):
        plan = (False, [(0, 0, 237, 171, size, size, 0, 0, size, size)])
        assert (run(data, plan, scaled=True) == run(data, plan)).all() == same


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "Empty input file"),
        (lambda data: b"GIF89a" + data, "Not a JPEG file: starts with 0x47 0x49"),
        (lambda data: data[:200], "the file ends too early, after 200 bytes"),
        (lambda data: data[:-3000], "the file ends too early, after"),
    ],
)
def test_damage_that_stops_pillow_stops_us(damage, message):
    data = damage(jpeg_of(small_photograph()))
    with pytest.raises(OSError):
        read_rgb(data)
    with pytest.raises(ValueError, match=message):
        run(data, whole(237, 171))


def test_a_cut_file_is_noticed_although_its_end_is_not_needed():
    data = jpeg_of(small_photograph())[:-2000]
    with pytest.raises(ValueError, match="the file ends too early"):
        run(data, (False, [(0, 0, 8, 8, 8, 8, 0, 0, 8, 8)]))


def test_what_pillow_accepts_is_accepted():
    """Bytes behind the end, and wrong bytes in the middle, of which libjpeg only warns."""
    data = jpeg_of(small_photograph())
    middle = len(data) // 2
    for changed in (data + b"more", data[:middle] + b"\x13\x57" * 20 + data[middle + 40 :]):
        image = read_rgb(changed)
        np.testing.assert_array_equal(run(changed, whole(*image.size)), np.asarray(image))


def test_a_plan_that_does_not_fit_is_refused():
    data = jpeg_of(small_photograph())
    for box in ((0, 0, 238, 171), (-1, 0, 10, 10), (230, 0, 8, 8), (0, 0, 0, 5)):
        with pytest.raises(ValueError, match="stage 0 does not fit an image of 237 x 171"):
            run(data, (False, [(*box, 8, 8, 0, 0, 8, 8)]))
