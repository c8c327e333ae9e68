#!/usr/bin/env python3
"""Writes a file of each container format in its present version, if that version has none yet.

Run it once when the version of a format is raised, and commit the new file beside the older ones:
test_frozen_formats.py then holds newer code to reading or refusing each of them. A file is never
written anew.
"""

from __future__ import annotations

import struct
from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent


def version_of(content: bytes) -> int:
    """Containers begin with 8 bytes of magic and the version (docs/formats.md)."""
    return int(struct.unpack_from("<I", content, 8)[0])


def containers() -> dict[str, bytes]:
    """A container of each format, as this version of the package makes it for a small function."""
    import habana_frameworks.torch  # noqa: F401
    from habana_frameworks.torch.dynamo import report
    from habana_frameworks.torch.dynamo.programs.service import service
    from habana_frameworks.torch.dynamo.records.graph_watch import watched

    graphs: list[bytes] = []
    with watched(lambda record, captured: graphs.append(captured.graph)), torch.no_grad():
        compiled = torch.compile(lambda x, y: torch.relu(x @ y) + 0.5, backend="hpu_backend")
        compiled(torch.ones(4, 8, device="hpu"), torch.ones(8, 3, device="hpu"))
    key = bytes.fromhex(report().graphs[-1].front_end_key)
    stored = service.stored_program(key)
    return {
        "captured_graph": graphs[-1],
        "program": bytes(stored.program),
        "recipe": bytes(stored.recipes[0]),
    }


def main() -> None:
    for name, content in containers().items():
        path = FOLDER / f"{name}.v{version_of(content)}"
        if not path.exists():
            path.write_bytes(content)
            print(f"wrote {path.name}, {len(content)} bytes")


if __name__ == "__main__":
    main()
