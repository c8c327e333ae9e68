"""JPEG files to normalised batches (C++; data_loader/). Uses no torch: batches are written to an
address.

Sizes are (width, height). A plan is that of geometry.py. The ISA level "" is the best one of this
processor.
"""

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
) -> tuple[bytes, int, int]:
    """RGB pixels, width and height of one image after its plan: of a JPEG file, or of RGB pixels if
    `size` is given. ValueError: it cannot be decoded, or the plan does not fit."""

class Files:
    """The files of a batch, which are being read."""

    def done(self) -> bool: ...
    def sizes(self) -> list[tuple[int, int] | None]:
        """Waits until all have been read. None: the file was not read, or is no JPEG; `error` says
        why."""

    def error(self, index: int) -> str: ...
    def set_pixels(self, index: int, rgb: bytes, width: int, height: int) -> None:
        """Takes these pixels in place of the file."""

class Batch:
    """Images that are being decoded. When it goes away, nothing is written any more."""

    def done(self) -> bool: ...
    def wait(self) -> str | None:
        """Waits until all have been decoded; the error of the first that failed, with its path."""

class Loader:
    """Threads: `readers` read files, `decoders` decode. `table` has 3 x 256 floats, for each value
    of each channel; `tall_first` says whether Pillow 13's order of passes is taken."""

    def __init__(
        self,
        readers: int,
        decoders: int,
        table: bytes,
        scaled: bool = True,
        tall_first: bool = True,
        level: str = "",
    ) -> None: ...
    def read(self, paths: list[bytes]) -> Files: ...
    def decode(
        self, files: Files, plans: list[Plan], address: int, width: int, height: int
    ) -> Batch:
        """Writes float32 [images, 3, height, width] to `address`, which must stay valid as long as
        the batch is there."""

    def close(self) -> None:
        """Ends the threads. Batches that have not finished never will."""
