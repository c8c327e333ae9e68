"""Dynamo's list of backends."""

from __future__ import annotations

from torch._dynamo.backends.registry import list_backends as list_backends
from torch._dynamo.backends.registry import register_backend as register_backend
