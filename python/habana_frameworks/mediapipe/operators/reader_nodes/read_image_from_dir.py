"""The reader of folders of photographs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from habana_dataloader.conditions import SUFFIXES

from ...media_types import dtype
from ...pipeline.operator import Operator
from ...pipeline.run import ImageFiles, Run, read_images
from .dataset import ORDER_ARGUMENTS, DatasetReader

_FORMATS = ("jpg", "jpeg", "JPG", "JPEG")


def get_max_file(paths: Iterable[str]) -> str:
    """The path of the largest of these files."""
    return max(paths, key=os.path.getsize)


class ReadImageDatasetFromDir(DatasetReader):
    """The files of the folders in `dir`, each of which is a class, in the order of their names; or
    those of `file_list` with their classes."""

    ARGUMENTS = {
        **ORDER_ARGUMENTS,
        "dir": None,
        "format": "jpg",
        "file_list": None,
        "class_list": None,
        "file_classes": None,
        "max_file": None,
        "label_dtype": dtype.UINT64,
    }
    CHOICES = {
        **DatasetReader.CHOICES,
        "format": _FORMATS,
        "label_dtype": (dtype.UINT32, dtype.UINT64, dtype.INT32, dtype.INT64),
    }
    OUTPUTS = 2

    def check(self) -> None:
        given = self.arguments
        if (given.dir is None) == (given.file_list is None):
            raise ValueError(f"{self.title} needs either dir or file_list")
        if given.dir is None and (given.class_list is None or given.file_classes is None):
            raise ValueError(f"{self.title}(file_list) needs class_list and file_classes too")

    def sample_count(self) -> int:
        given = self.arguments
        if given.dir is None:
            self._paths = [str(path) for path in given.file_list]
            numbers = {name: i for i, name in enumerate(given.class_list)}
            labels = [numbers[name] for name in given.file_classes]
        else:
            found = _files_of(self, Path(given.dir))
            self._paths = [str(path) for path, _ in found]
            labels = [label for _, label in found]
        if len(labels) != len(self._paths):
            raise ValueError(
                f"{self.title} has {len(self._paths)} files and {len(labels)} file_classes"
            )
        self._labels = np.array(labels, dtype=given.label_dtype)
        return len(self._paths)

    def compute(self, run: Run) -> tuple[ImageFiles, torch.Tensor]:
        samples, _ = self.next_samples()
        images = read_images(run, [self._paths[sample] for sample in samples])
        return images, torch.from_numpy(self._labels[samples])


def _files_of(reader: Operator, root: Path) -> list[tuple[Path, int]]:
    if not root.is_dir():
        raise FileNotFoundError(f"{reader.title}: there is no folder {root}")
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    return [
        (path, label)
        for label, folder in enumerate(folders)
        for path in sorted(folder.iterdir())
        if path.name.lower().endswith(SUFFIXES)
    ]
