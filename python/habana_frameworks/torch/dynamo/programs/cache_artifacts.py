"""Programs in torch.compiler.save_cache_artifacts() and load_cache_artifacts().

A graph of this process that has a stored program is an artifact of type "hpu_program". Its key is
the graph's front-end key. Its content is a bundle (dynamo/programs/bundle.py) of one program with
its signatures, which is read from the daemon when the artifacts are saved. Loading gives the bundle
to the daemon, which files a program that is signed by the daemon itself or by a key that it trusts.
PyTorch's own artifacts are pickles; these are not.
"""

from __future__ import annotations

import io
import logging
from typing import Any

from ...torch_compat.artifacts import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

TYPE = "hpu_program"
_IMPORT_TIMEOUT_S = 60.0

_log = logging.getLogger("habana_frameworks.torch.dynamo")


class ProgramArtifact(CacheArtifact):
    """The content is read when it is asked for: recording a graph costs nothing."""

    _content: bytes

    def __init__(self, key: str, content: bytes) -> None:
        # The base is a frozen dataclass.
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "_content", content)

    def __getattribute__(self, name: str) -> Any:
        if name != "content":
            return super().__getattribute__(name)
        return self._content or _read(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProgramArtifact) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"ProgramArtifact({self.key!r})"

    @staticmethod
    def type() -> str:
        return TYPE

    def populate_cache(self) -> None:
        """Never raises: a program that cannot be filed is compiled when it is needed."""
        from .bundle import BundleError, BundleReader
        from .service import NoProgram, service

        try:
            with BundleReader(io.BytesIO(self.content), "of this artifact") as bundle:
                for program in bundle:
                    service.import_program(
                        program.manifest, program.blobs, program.aliases, _IMPORT_TIMEOUT_S
                    )
        except (BundleError, NoProgram, OSError) as error:
            _log.warning("the program of key %s was not loaded: %s", self.key[:16], error)


def _read(key: str) -> bytes:
    """A bundle of the program that the key names. It has no programs if the program is not
    stored."""
    from .bundle import BundledProgram, BundleWriter
    from .service import NoProgram, service

    file = io.BytesIO()
    with BundleWriter(file) as bundle:
        try:
            found = service.stored_program(bytes.fromhex(key))
        except NoProgram as error:
            _log.warning("the program of key %s was not saved: %s", key[:16], error)
            found = None
        if found is not None:
            blobs = [bytes(found.program), *(bytes(recipe) for recipe in found.recipes)]
            content_key = str(found.manifest["key"])
            bundle.add(
                BundledProgram(content_key, "", found.signed_manifest, blobs, [found.signed_alias])
            )
    return file.getvalue()


def register() -> None:
    """Called at the import, so that a process that has compiled nothing can load artifacts."""
    if TYPE not in CacheArtifactFactory._artifact_types:
        CacheArtifactFactory.register(ProgramArtifact)


def record(front_end_key: str) -> None:
    """Notes that a graph of this process has a stored program."""
    CacheArtifactManager.record_artifact(TYPE, front_end_key, b"")
