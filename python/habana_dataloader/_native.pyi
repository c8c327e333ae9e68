"""JPEG files to normalised batches (C++; data_loader/). Uses no torch: batches are written to an
address.

Sizes are (width, height). A plan is that of geometry.py. The ISA level "" is the best one of this
processor.
"""

import numpy as np

from .geometry import Plan

def levels() -> list[str]:
    """The ISA levels of this processor for which there are kernels, the slowest first."""

def run_plan(
    bytes: bytes,
    plan: Plan,
    size: tuple[int, int] | None = None,
    scaled: bool = True,
    tall_first: bool = True,
    level: str = "",
    filter: str = "bilinear",
) -> tuple[bytes, int, int]:
    """RGB pixels, width and height of one image after its plan: of a JPEG file, or of RGB pixels if
    `size` is given. ValueError: it cannot be decoded, or the plan does not fit."""

class Content:
    """The bytes of a file, for the buffer protocol (numpy.frombuffer). It keeps them."""

class Files:
    """The files of a batch, which are being read."""

    def done(self) -> bool: ...
    def sizes(self) -> list[tuple[int, int] | None]:
        """Waits until all have been read. None: the file was not read, or is no JPEG; `error` says
        why."""

    def error(self, index: int) -> str: ...
    def content(self, index: int) -> Content | None:
        """Waits until all have been read. None: the file was not read."""

    def set_pixels(self, index: int, rgb: bytes, width: int, height: int) -> None:
        """Takes these pixels in place of the file."""

class Batch:
    """Images that are being decoded, or arrays that are being copied. When it goes away, nothing is
    written any more."""

    def done(self) -> bool: ...
    def wait(self) -> str | None:
        """Waits until all have been written; the error of the first that failed, with its path."""

    def cancel(self) -> None:
        """Nothing is written any more when this has returned."""

class Search(Batch):
    """Volumes of labels whose connected parts are being found."""

    def result(self) -> list[list[tuple[int, list[list[int]]]]]:
        """Waits; for each volume each label but 0 that it has, with the cuboids around its parts,
        the largest first: begin and end of the three axes, the slowest first."""

class Loader:
    """Threads: `readers` read files, `decoders` decode and copy. `tall_first` says whether Pillow
    13's order of passes is taken."""

    def __init__(
        self,
        readers: int,
        decoders: int,
        scaled: bool = True,
        tall_first: bool = True,
        level: str = "",
    ) -> None: ...
    def read(self, paths: list[bytes], images: bool = True) -> Files:
        """Files that are no JPEG are errors where `images` is true."""

    def take(self, names: list[bytes], contents: list[np.ndarray]) -> Files:
        """JPEG files whose bytes are there already, and are copied. `names` stand in errors."""

    def decode(
        self,
        files: Files,
        plans: list[Plan],
        address: int,
        width: int,
        height: int,
        table: bytes,
        interleaved: bool = False,
        bgr: bool = False,
        filter: str = "bilinear",
    ) -> Batch:
        """Writes [images, 3, height, width], or [images, height, width, 3], to `address`, which
        must stay valid as long as the batch is there. `table` has 3 x 256 elements of one, two or
        four bytes, which the values of each channel of the result become. The filter is nearest,
        box, bilinear, bicubic or lanczos. `files` cannot be decoded again."""

    def copy(self, arrays: list[np.ndarray], address: int, table: bytes = b"") -> Batch:
        """Writes the arrays, which may have any strides and have as many elements each, behind each
        other without gaps to `address`, which must stay valid as long as the batch is there. With
        a table they are bytes: value v at position c of the first axis becomes element 256 * c + v
        of it."""

    def find_blobs(self, labels: list[np.ndarray], most: int) -> Search:
        """For each label the `most` largest parts, whose elements touch each other by faces.
        `labels` are arrays of bytes with three axes and any strides."""

    def close(self) -> None:
        """Ends the threads. Batches that have not finished never will."""
