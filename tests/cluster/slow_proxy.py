"""Forwards bytes and delays answers. Run as a program: PORT TARGET_PORT SECONDS."""

from __future__ import annotations

import asyncio
import sys


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    while data := await reader.read(1 << 16):
        await asyncio.sleep(delay)
        writer.write(data)
        await writer.drain()
    writer.close()


async def _main(port: int, target: int, delay: float) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_pump(reader, there[1], 0), _pump(there[0], writer, delay))

    async with await asyncio.start_server(handle, "0.0.0.0", port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
