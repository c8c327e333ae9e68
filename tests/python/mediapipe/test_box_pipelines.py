"""COCO data sets, and what SSD does with their boxes, beside definitions written out as loops."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from media_pipelines import Pipeline, drain
from photograph_folders import photograph_folder  # noqa: F401  fixture
from photographs import read_rgb

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype, imgtype, lastBatchStrategy
from habana_frameworks.mediapipe.operators.boxes import anchors
from habana_frameworks.mediapipe.plugins.iterator_pytorch import HPUSsdPytorchIterator


@pytest.fixture(name="coco", scope="module")
def coco_files(folder, tmp_path_factory):
    """Nine images; the last one has no boxes."""
    draw = np.random.default_rng(2)
    images, annotations = [], []
    for number, path in enumerate(sorted(folder.rglob("*.jp*"))[:9]):
        width, height = read_rgb(path.read_bytes()).size
        name = str(path.relative_to(folder))
        images.append({"id": 100 + number, "file_name": name, "width": width, "height": height})
        for _ in range(0 if number == 8 else 1 + number % 4):
            w, h = draw.integers(20, 150, 2).tolist()
            x, y = draw.integers(0, width - w), draw.integers(0, height - h)
            box = {"bbox": [int(x), int(y), w, h], "category_id": int(draw.choice([7, 3, 90]))}
            annotations.append({"image_id": 100 + number, **box})
    document = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 90}, {"id": 3}, {"id": 7}],
    }
    path = tmp_path_factory.mktemp("coco") / "instances.json"
    path.write_text(json.dumps(document))
    return folder, path, document


class Detection(Pipeline):
    """`crops` says whether windows are drawn."""

    def __init__(self, coco, crops=False, **options):
        self.coco, self.crops = coco, crops
        super().__init__(**options)

    def definegraph(self):
        folder, path, _ = self.coco
        jpegs, ids, sizes, boxes, labels, lengths, batch = fn.CocoReader(
            root=str(folder),
            annfile=str(path),
            shuffle=False,
            last_batch_strategy=lastBatchStrategy.PARTIAL,
        )()
        decode = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[32, 32])
        if not self.crops:
            return decode(jpegs), ids, sizes.as_hpu(), boxes, labels, lengths, batch
        sizes, boxes, labels, lengths, windows = fn.SSDCropWindowGen(seed=4)(
            sizes, boxes, labels, lengths
        )
        flips = fn.CoinFlip(seed=4, dtype=dtype.INT8)(fn.Constant(constant=0.5)())
        turned = fn.SSDBBoxFlip()(flips, boxes, lengths)
        return decode(jpegs, windows), boxes, labels, lengths, windows, flips, turned


def test_annotations_become_padded_arrays(coco):
    _, _, document = coco
    found = drain(Detection(coco, batch_size=3))
    columns = [torch.cat(column) for column in zip(*found, strict=True)]
    images, ids, sizes, boxes, labels, lengths, real = columns
    assert images.shape == (9, 3, 32, 32)
    assert real.tolist() == [3, 3, 2]
    assert ids.tolist() == [*range(100, 108), 107]  # the last image is repeated
    for i, number in enumerate(ids.tolist()):
        image = document["images"][number - 100]
        used = [a for a in document["annotations"] if a["image_id"] == number]
        assert sizes[i].tolist() == [image["height"], image["width"]]
        assert lengths[i] == len(used)
        assert labels[i, : len(used)].tolist() == [
            {3: 1, 7: 2, 90: 3}[a["category_id"]] for a in used
        ]
        for box, annotation in zip(boxes[i].tolist(), used, strict=False):
            x, y, w, h = annotation["bbox"]
            width, height = image["width"], image["height"]
            expected = [x / width, y / height, (x + w) / width, (y + h) / height]
            assert box == pytest.approx(expected, abs=1e-6)
        assert (
            not boxes[i, len(used) :].any() and not labels[i, len(used) :].view(torch.int32).any()
        )


def test_the_iterator_leaves_padding_out(coco):
    batches = list(HPUSsdPytorchIterator(Detection(coco, batch_size=3, device="hpu")))
    assert [len(images) for images, *_ in batches] == [3, 3, 2]
    _, ids, (heights, widths), boxes, labels = batches[2]
    assert ids.tolist() == [106, 107]
    image = coco[2]["images"][6]
    assert (heights[0].item(), widths[0].item()) == (image["height"], image["width"])
    assert (boxes.shape, labels.shape) == ((2, 200, 4), (2, 200))
    assert boxes.device.type == "hpu"


def test_windows_keep_the_boxes_whose_centre_they_contain(coco):
    whole = drain(Detection(coco, batch_size=4))
    cropped = drain(Detection(coco, crops=True, batch_size=4), epochs=3)
    windows_seen = set()
    for number, batch in enumerate(cropped):
        _, boxes, labels, lengths, windows, flips, turned = (v.numpy() for v in batch)
        given = [value.numpy() for value in whole[number % 2]]
        for i in range(4):
            x, y, w, h = windows[i].tolist()
            windows_seen.add((x, y, w, h))
            assert w >= 0.3 and h >= 0.3 and x >= 0 and y >= 0 and x + w <= 1 and y + h <= 1
            kept = []
            for box, label in zip(given[3][i], given[4][i], strict=True):
                center = (box[:2] + box[2:]) / 2
                inside = x < center[0] < x + w and y < center[1] < y + h
                if label and inside:
                    left, top = max(box[0], x), max(box[1], y)
                    right, bottom = min(box[2], x + w), min(box[3], y + h)
                    corners = [(left - x) / w, (top - y) / h, (right - x) / w, (bottom - y) / h]
                    kept.append((corners, label))
            assert lengths[i] == len(kept) >= 1
            for j, (corners, label) in enumerate(kept):
                np.testing.assert_allclose(boxes[i, j], corners, atol=1e-5)
                assert labels[i, j] == label
                left, top, right, bottom = boxes[i, j]
                mirrored = [1 - right, top, 1 - left, bottom] if flips[i] else boxes[i, j]
                np.testing.assert_allclose(turned[i, j], mirrored, atol=1e-6)
            assert not labels[i, len(kept) :].any() and not turned[i, len(kept) :].any()
    assert len(windows_seen) > 12 and (0, 0, 1, 1) in windows_seen


def overlap(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(w, 0) * max(h, 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def test_boxes_are_encoded_by_their_anchors(coco):
    class Encoding(Detection):
        def definegraph(self):
            _, _, _, boxes, labels, lengths, _ = super().definegraph()
            return boxes, labels, *fn.SSDEncode()(boxes, labels, lengths)

    boxes, labels, encoded, classes = (v.numpy() for v in drain(Encoding(coco, batch_size=2))[1])
    found = anchors()
    assert found.shape == (8732, 4)
    np.testing.assert_allclose(found[0], [4 / 300, 4 / 300, 0.07, 0.07], atol=1e-6)
    np.testing.assert_allclose(found[-1][:2], [0.5, 0.5])
    corners = [(cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2) for cx, cy, w, h in found.tolist()]
    for i in range(2):
        used = [box.tolist() for box, label in zip(boxes[i], labels[i], strict=True) if label]
        amounts = np.array([[overlap(box, anchor) for anchor in corners] for box in used])
        own = amounts > amounts.max(1, keepdims=True) - 1e-6
        assert all(((classes[i] > 0) & own[j]).any() for j in range(len(used)))
        for k in range(8732):
            j = int(amounts[:, k].argmax())
            if own[:, k].any():
                continue
            assert classes[i, k] == (labels[i, j] if amounts[j, k] > 0.5 else 0)
            if classes[i, k] == 0:
                continue
            left, top, right, bottom = used[j]
            cx, cy, w, h = found[k].tolist()
            expected = [
                ((left + right) / 2 - cx) / w * 10,
                ((top + bottom) / 2 - cy) / h * 10,
                math.log((right - left) / w) * 5,
                math.log((bottom - top) / h) * 5,
            ]
            np.testing.assert_allclose(encoded[i, k], expected, atol=1e-3)
        assert (classes[i] > 0).sum() >= len(used)


def test_a_file_without_annotations_is_named(coco, tmp_path):
    (tmp_path / "bad.json").write_text('{"images": []}')
    with pytest.raises(ValueError, match=r"bad.json is no file of COCO .* lacks 'annotations'"):
        drain(Detection((coco[0], tmp_path / "bad.json", None)))
