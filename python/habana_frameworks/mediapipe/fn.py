"""The operators of media pipelines by their names (docs/media_pipeline.md says what each does).

Names that the guides list and that are not built raise NotImplementedError when they are called.
"""

from __future__ import annotations

from typing import Any

from .operators.arrays import BasicCrop as BasicCrop
from .operators.arrays import Crop as Crop
from .operators.arrays import Flip as Flip
from .operators.arrays import RandomFlip as RandomFlip
from .operators.boxes import SSDBBoxFlip as SSDBBoxFlip
from .operators.boxes import SSDCropWindowGen as SSDCropWindowGen
from .operators.boxes import SSDEncode as SSDEncode
from .operators.cpu_nodes.constants import CoinFlip as CoinFlip
from .operators.cpu_nodes.constants import Constant as Constant
from .operators.cpu_nodes.constants import MediaConst as MediaConst
from .operators.cpu_nodes.constants import MediaFunc as MediaFunc
from .operators.cpu_nodes.constants import Reshape as Reshape
from .operators.images import ColorSpaceConversion as ColorSpaceConversion
from .operators.images import CropMirrorNorm as CropMirrorNorm
from .operators.images import CropWindowGen as CropWindowGen
from .operators.images import ImageDecoder as ImageDecoder
from .operators.reader_nodes.coco_reader import CocoReader as CocoReader
from .operators.reader_nodes.read_image_from_dir import (
    ReadImageDatasetFromDir as ReadImageDatasetFromDir,
)
from .operators.reader_nodes.read_numpy_from_dir import (
    ReadNumpyDatasetFromDir as ReadNumpyDatasetFromDir,
)
from .operators.reader_nodes.reader_nodes import MediaExtReaderOp as MediaExtReaderOp
from .operators.volumes import RandomBiasedCrop as RandomBiasedCrop

_ENGINE = "it runs on the card's media engine, and the emulated device has none"
_TENSORS = "call PyTorch's operators on the batches, which are tensors of hpu"
_PYTHON = "use fn.MediaFunc, or PyTorch's operators on the batches"
# Name -> why it is not built, or what to use.
NOT_BUILT = {
    **dict.fromkeys(("ReadVideoDatasetFromDir", "VideoDecoder"), _ENGINE),
    **dict.fromkeys(
        (
            "Add",
            "BitwiseAnd",
            "BitwiseOr",
            "BitwiseXor",
            "Brightness",
            "Cast",
            "Clamp",
            "Concat",
            "Contrast",
            "GatherND",
            "GaussianBlur",
            "Hue",
            "MemCpy",
            "Modulo",
            "Mult",
            "Neg",
            "Normalize",
            "Pad",
            "RandomNormal",
            "RandomUniform",
            "ReduceMax",
            "ReduceMin",
            "Resize",
            "Saturation",
            "Slice",
            "Split",
            "Sub",
            "Transpose",
            "Where",
            "Zoom",
        ),
        _TENSORS,
    ),
    "SSDMetadata": "call fn.SSDCropWindowGen, fn.SSDBBoxFlip and fn.SSDEncode one after the other",
    "ExtCpuOp": _PYTHON,
    "ExtHpuOp": _TENSORS,
    "MediaExtCpuOp": _PYTHON,
}


def __getattr__(name: str) -> Any:
    if name not in NOT_BUILT:
        raise AttributeError(f"module {__name__!r} has no operator {name!r}")

    def refuse(*arguments: Any, **given: Any) -> Any:
        raise NotImplementedError(f"fn.{name} is not built: {NOT_BUILT[name]}")

    refuse.__name__ = name
    return refuse
