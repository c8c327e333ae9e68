"""Warm-up of services: every shape compiled, and launched once, before the first request.

    buckets = warmup.Buckets(batch=warmup.exponential(1, 16), sequence=warmup.linear(16, 256, 16))
    handle = warmup.start(lambda shape: model(**inputs_of(shape)), buckets)
    ...                                   # handle.ready is the readiness probe
    padded = buckets.pad(inputs)
    output = padded.unpad(model(**padded.inputs))

docs/warmup.md is the guide; `hpu-compile warm` does the same for a manifest.
"""

from __future__ import annotations

from .buckets import Buckets as Buckets
from .buckets import Padded as Padded
from .buckets import Shape as Shape
from .buckets import exponential as exponential
from .buckets import linear as linear
from .record import record as record
from .report import Progress as Progress
from .report import Report as Report
from .report import Row as Row
from .run import Handle as Handle
from .run import run as run
from .run import start as start
