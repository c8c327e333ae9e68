"""The reader of photographs with boxes, in the format of the COCO data sets."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...media_types import lastBatchStrategy
from ...pipeline.operator import REQUIRED
from ...pipeline.run import ImageFiles, Run, read_images
from ..boxes import MOST_BOXES
from .dataset import ORDER_ARGUMENTS, DatasetReader


class CocoReader(DatasetReader):
    """For each batch: files; ids [batch] of UINT32; sizes [batch, 2] of UINT32, the height first;
    boxes [batch, 200, 4] of FLOAT32 (left, top, right and bottom as shares of the image); labels
    [batch, 200] of UINT32, which count the categories from 1 in the order of their ids; lengths
    [batch] of UINT32, the number of boxes of each image; and, with partial_batch or
    lastBatchStrategy.PARTIAL, [1] of UINT32: how many images are no padding.

    Images without boxes are left out. Boxes beyond 200 are left out."""

    ARGUMENTS = {
        **ORDER_ARGUMENTS,
        "root": REQUIRED,
        "annfile": REQUIRED,
        "partial_batch": False,
        "max_file": None,
    }

    def output_count(self) -> int:
        given = self.arguments
        partial = given.last_batch_strategy == lastBatchStrategy.PARTIAL
        self._partial = bool(given.partial_batch) or partial
        return 7 if self._partial else 6

    def sample_count(self) -> int:
        root, path = Path(self.arguments.root), Path(self.arguments.annfile)
        document = json.loads(path.read_text(encoding="utf-8"))
        missing = [n for n in ("images", "annotations", "categories") if n not in document]
        if missing:
            raise ValueError(f"{path} is no file of COCO annotations: it lacks {missing[0]!r}")
        categories = sorted(category["id"] for category in document["categories"])
        numbers = {category: number for number, category in enumerate(categories, 1)}
        found: dict[int, list[Any]] = defaultdict(list)
        for annotation in document["annotations"]:
            found[annotation["image_id"]].append(annotation)
        images = [image for image in document["images"] if found[image["id"]]]
        self._paths = [str(root / image["file_name"]) for image in images]
        self._ids = np.array([image["id"] for image in images], np.uint32)
        self._sizes = np.array([(i["height"], i["width"]) for i in images], np.uint32)
        self._boxes = np.zeros((len(images), MOST_BOXES, 4), np.float32)
        self._labels = np.zeros((len(images), MOST_BOXES), np.uint32)
        self._lengths = np.zeros(len(images), np.uint32)
        for i, image in enumerate(images):
            used = found[image["id"]][:MOST_BOXES]
            corners = np.array([a["bbox"] for a in used], np.float32)
            corners[:, 2:] += corners[:, :2]
            scale = np.array([image["width"], image["height"]] * 2, np.float32)
            self._boxes[i, : len(used)] = corners / scale
            self._labels[i, : len(used)] = [numbers[a["category_id"]] for a in used]
            self._lengths[i] = len(used)
        return len(images)

    def compute(self, run: Run) -> tuple[ImageFiles | torch.Tensor, ...]:
        samples, real = self.next_samples()
        images = read_images(run, [self._paths[sample] for sample in samples])
        columns = (self._ids, self._sizes, self._boxes, self._labels, self._lengths)
        tensors = [torch.from_numpy(column[samples]) for column in columns]
        if self._partial:
            tensors.append(torch.tensor([real], dtype=torch.uint32))
        return images, *tensors
