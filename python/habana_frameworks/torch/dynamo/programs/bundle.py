"""A bundle: stored programs in one file, an OCI image layout in a tar archive.

A program is an image manifest: `config` is its signed manifest, and `layers` are the program, its
recipes, and then its signed aliases. The signatures are inside, so anybody may carry a bundle; the
user who imports it decides whom to trust. Formats: docs/formats.md.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

Record = tuple[bytes, bytes, bytes]  # record, signature, public key

_INDEX = "application/vnd.oci.image.index.v1+json"
_IMAGE = "application/vnd.oci.image.manifest.v1+json"
PROGRAM_ARTIFACT = "application/vnd.hpu.program.v1"
_SIGNED = "application/vnd.hpu.signed-record.v1+json"
_PROGRAM = "application/vnd.hpu.program"
_RECIPE = "application/vnd.hpu.recipe"
_ALIAS = "application/vnd.hpu.alias.v1+json"
_BLOB_NAME = re.compile(r"blobs/sha256/([0-9a-f]{64})")
# JSON parts are small; a file with a larger one is not a bundle.
_MAX_JSON_BYTES = 64 << 20
# The exceptions that tarfile and json raise on a file that was made to do harm.
_HOSTILE = (
    tarfile.TarError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


class BundleError(ValueError):
    """The file is not a bundle, or it is a damaged one; the text says which, and where."""


@dataclass(frozen=True)
class BundledProgram:
    key: str  # the content key, 64 hexadecimal digits; for people and file names
    label: str
    manifest: Record
    blobs: Sequence[bytes]  # the program, then the recipes
    aliases: Sequence[Record]


def _encode_record(record: Record) -> bytes:
    names = ("record", "signature", "public_key")
    fields = {n: base64.b64encode(v).decode() for n, v in zip(names, record, strict=True)}
    return json.dumps(fields).encode()


def _decode_record(data: bytes) -> Record:
    fields = json.loads(data)
    record, signature, public_key = (
        base64.b64decode(fields[name], validate=True)
        for name in ("record", "signature", "public_key")
    )
    return record, signature, public_key


@contextmanager
def new_bundle(path: Path) -> Iterator[BundleWriter]:
    """Writes a bundle in the block. The file exists, and is whole, when the block ends without an
    error."""
    temporary = path.with_name(path.name + ".part")
    temporary.unlink(missing_ok=True)  # left over by a process that was killed
    try:
        # "x" refuses a link or a FIFO that somebody else puts there meanwhile.
        with open(temporary, "xb") as file, BundleWriter(file) as bundle:
            yield bundle
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class BundleWriter:
    """A context manager; the bundle is whole when the block ends without an error."""

    def __init__(self, file: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w")  # noqa: SIM115
        self._known: set[str] = set()
        self._images: list[dict[str, Any]] = []

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": self._images}
            self._add("index.json", json.dumps(index).encode())
            self._add("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        self._tar.close()

    def add(self, program: BundledProgram) -> None:
        layers = [
            self._blob(_PROGRAM if i == 0 else _RECIPE, blob)
            for i, blob in enumerate(program.blobs)
        ]
        layers += [self._blob(_ALIAS, _encode_record(alias)) for alias in program.aliases]
        image = {
            "schemaVersion": 2,
            "mediaType": _IMAGE,
            "artifactType": PROGRAM_ARTIFACT,
            "config": self._blob(_SIGNED, _encode_record(program.manifest)),
            "layers": layers,
        }
        named = {"org.opencontainers.image.ref.name": program.key}
        if program.label:
            named["org.opencontainers.image.title"] = program.label
        descriptor = self._blob(_IMAGE, json.dumps(image).encode())
        self._images.append({**descriptor, "artifactType": PROGRAM_ARTIFACT, "annotations": named})

    def _blob(self, media_type: str, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._known:
            self._known.add(digest)
            self._add(f"blobs/sha256/{digest}", data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def _add(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        member.mode = 0o644
        self._tar.addfile(member, io.BytesIO(data))


class BundleReader:
    """Reads the programs of a bundle; nothing is unpacked. Raises BundleError."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """name: the name of the bundle in error messages."""
        self._name = name
        try:
            self._tar = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115
            end = file.seek(0, io.SEEK_END)
            file.seek(0)
            # A sparse member, or one beyond the end, claims more bytes than there are.
            self._members = {
                member.name.removeprefix("./"): member
                for member in self._tar
                if member.isreg()
                and not member.issparse()
                and member.offset_data + member.size <= end
            }
        except _HOSTILE as error:
            raise BundleError(f"{name} is not a bundle: {error!r}") from error
        self._images = self._list_images()

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def __len__(self) -> int:
        return len(self._images)

    def __iter__(self) -> Iterator[BundledProgram]:
        for image in self._images:
            try:
                yield self._program(image)
            except BundleError:
                raise
            except _HOSTILE as error:
                raise self._damaged(f"a description of a program: {error!r}") from error

    def _list_images(self) -> list[dict[str, Any]]:
        try:
            index = json.loads(self._read("index.json", _MAX_JSON_BYTES))
            return [m for m in index["manifests"] if m.get("artifactType") == PROGRAM_ARTIFACT]
        except BundleError:
            raise
        except _HOSTILE as error:
            raise self._damaged(f"index.json: {error!r}") from error

    def _program(self, image: dict[str, Any]) -> BundledProgram:
        manifest = json.loads(self._blob(image, _MAX_JSON_BYTES))
        layers = manifest["layers"]
        annotations = image.get("annotations", {})
        return BundledProgram(
            key=str(annotations.get("org.opencontainers.image.ref.name", "")),
            label=str(annotations.get("org.opencontainers.image.title", "")),
            manifest=_decode_record(self._blob(manifest["config"], _MAX_JSON_BYTES)),
            blobs=[self._blob(x) for x in layers if x["mediaType"] in (_PROGRAM, _RECIPE)],
            aliases=[
                _decode_record(self._blob(x, _MAX_JSON_BYTES))
                for x in layers
                if x["mediaType"] == _ALIAS
            ],
        )

    def _blob(self, descriptor: dict[str, Any], limit: int | None = None) -> bytes:
        name = "blobs/" + str(descriptor["digest"]).replace(":", "/", 1)
        found = _BLOB_NAME.fullmatch(name)
        if found is None:
            raise self._damaged(f"{name!r} is not the name of a blob")
        data = self._read(name, limit)
        if hashlib.sha256(data).hexdigest() != found[1]:
            raise self._damaged(f"{name} has content that does not match its name")
        return data

    def _read(self, name: str, limit: int | None = None) -> bytes:
        member = self._members.get(name)
        if member is None:
            raise self._damaged(f"{name} is missing")
        if limit is not None and member.size > limit:
            raise self._damaged(f"{name} has {member.size} bytes, at most {limit} are taken")
        file = self._tar.extractfile(member)
        data = b"" if file is None else file.read()
        if len(data) != member.size:
            raise self._damaged(f"{name} is cut off")
        return data

    def _damaged(self, what: str) -> BundleError:
        return BundleError(f"the bundle {self._name} is damaged: {what}")
