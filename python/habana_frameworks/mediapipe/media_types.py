"""The names that arguments of operators take.

A dtype is a string that numpy knows, except for BFLOAT16 and for NDT, which has no elements: the
paths of files.
"""

from __future__ import annotations


class dtype:
    NDT = "ndt"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"


class imgtype:
    """RGB_I is [batch, height, width, 3], RGB_P is [batch, 3, height, width]."""

    RGB_I = "rgb-i"
    RGB_P = "rgb-p"


class ftype:
    LINEAR = 0
    LANCZOS = 1
    NEAREST = 2
    BI_LINEAR = 3
    BICUBIC = 4
    SPLINE = 5
    BOX = 6


class randomCropType:
    NO_RANDOM_CROP = 0
    RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP = 1
    CENTER_CROP = 2


class decoderStage:
    """Stages of the media engine. Only ENABLE_ALL_STAGES runs here."""

    ENABLE_ALL_STAGES = 0
    ENABLE_SINGLE_STAGE = 1
    ENABLE_TWO_STAGES = 2


class readerOutType:
    FILE_LIST = 0
    BUFFER_LIST = 1
    ADDRESS_LIST = 2


class lastBatchStrategy:
    """The treatment of the last batch of an epoch if the files do not fill it: it is dropped,
    filled by files drawn at random (CYCLIC) or by its last file (PAD), or filled by its last file
    while the reader's output `batch` says how many are real (PARTIAL)."""

    NONE = 0
    DROP = 1
    CYCLIC = 2
    PAD = 3
    PARTIAL = 4
