"""Cache artifacts of torch.compiler."""

from __future__ import annotations

from torch.compiler import _cache
from torch.compiler._cache import CacheArtifact as CacheArtifact
from torch.compiler._cache import CacheArtifactFactory as CacheArtifactFactory
from torch.compiler._cache import CacheArtifactManager as CacheArtifactManager

artifact_types = _cache.CacheArtifactFactory._artifact_types
