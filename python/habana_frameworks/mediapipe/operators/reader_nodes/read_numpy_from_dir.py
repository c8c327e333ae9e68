"""The reader of arrays in files of numpy's format .npy."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from habana_dataloader import _native

from ...media_types import dtype
from ...pipeline.operator import REQUIRED
from ...pipeline.run import Run, Views, Waits
from .dataset import ORDER_ARGUMENTS, DatasetReader

_TYPES = (dtype.UINT8, dtype.UINT16, dtype.INT16, dtype.INT32, dtype.FLOAT32)
# An array's description in front of its elements is shorter (numpy.lib.format).
_LONGEST_HEADER = 1 << 16


class ReadNumpyDatasetFromDir(DatasetReader):
    """For each output a list of files with one array each; file i of all outputs belongs together.
    Arrays of a batch may differ in size until something but a crop takes them, whatever `dense`
    says."""

    ARGUMENTS = {
        **ORDER_ARGUMENTS,
        "num_outputs": 1,
        "shuffle_across_dataset": False,
        "dir": None,
        "pattern": "xyz_*.npz",
        "file_list": None,
        "dense": True,
        "dtype": REQUIRED,
        "num_readers": 1,
    }

    def check(self) -> None:
        given = self.arguments
        if (given.dir is None) == (given.file_list is None):
            raise ValueError(f"{self.title} needs either dir or file_list")
        self._types = [given.dtype] if isinstance(given.dtype, str) else list(given.dtype)
        if len(self._types) != given.num_outputs or not set(self._types) <= set(_TYPES):
            allowed = ", ".join(map(repr, _TYPES))
            raise ValueError(
                f"{self.title}(dtype) must be a type for each of num_outputs, out of {allowed}, "
                f"and is {given.dtype!r}"
            )

    def output_count(self) -> int:
        return int(self.arguments.num_outputs)

    def across_slices(self) -> bool:
        return bool(self.arguments.shuffle_across_dataset)

    def sample_count(self) -> int:
        given = self.arguments
        if given.dir is not None:
            patterns = [given.pattern] if isinstance(given.pattern, str) else given.pattern
            lists: Sequence[Any] = [sorted(Path(given.dir).glob(p)) for p in patterns]
        elif given.num_outputs == 1 and isinstance(given.file_list[0], str | Path):
            lists = [given.file_list]
        else:
            lists = given.file_list
        self._lists = [[str(path) for path in paths] for paths in lists]
        counts = [len(paths) for paths in self._lists]
        if len(counts) != given.num_outputs or len(set(counts)) != 1:
            raise ValueError(
                f"{self.title} needs {given.num_outputs} lists of as many files each, and has "
                f"lists of {counts}"
            )
        return counts[0]

    def evaluate(self, run: Run, *inputs: Any) -> Waits[tuple[Views, ...]]:
        samples, _ = self.next_samples()
        chosen = [[paths[sample] for sample in samples] for paths in self._lists]
        reading = [run.loader.read([os.fsencode(p) for p in paths], False) for paths in chosen]
        results = []
        for paths, files, name in zip(chosen, reading, self._types, strict=True):
            yield files
            arrays = [array_of(files, i, path, name) for i, path in enumerate(paths)]
            results.append(Views(arrays))
        return tuple(results)


def array_of(files: _native.Files, index: int, path: str, name: str) -> np.ndarray:
    """The array in a file that has been read, without a copy. ValueError: it is damaged or of
    another type."""
    content = files.content(index)
    if content is None:
        raise OSError(f"{path} cannot be read: {files.error(index)}")
    data = np.frombuffer(content, np.uint8)  # type: ignore[call-overload]
    head = io.BytesIO(data[:_LONGEST_HEADER].tobytes())
    try:
        version = np.lib.format.read_magic(head)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, by_columns, found = read(head)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is no file of numpy's format .npy: {error}") from error
    if found != np.dtype(name).newbyteorder("<"):
        raise ValueError(f"{path} has elements of {found}, and the reader is for {name}")
    count = int(np.prod(shape, dtype=np.int64))
    if len(data) - head.tell() < count * found.itemsize:
        raise ValueError(f"{path} ends too early: it describes an array of {shape}")
    flat = data[head.tell() : head.tell() + count * found.itemsize].view(found)
    array: np.ndarray = flat.reshape(shape, order="F" if by_columns else "C")
    return array
