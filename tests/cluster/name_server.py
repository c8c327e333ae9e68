"""A DNS server of a few names. Run as a program: NAME=ADDRESS ..."""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys

_A = 1


def answer(query: bytes, names: dict[str, str]) -> bytes:
    end = 12
    labels = []
    while query[end]:
        labels.append(query[end + 1 : end + 1 + query[end]].decode())
        end += 1 + query[end]
    (kind,) = struct.unpack_from("!H", query, end + 1)
    question = query[12 : end + 5]
    address = names.get(".".join(labels).lower())
    failed = 0 if address else 3
    records = b""
    if address and kind == _A:
        record = struct.pack("!HHHIH", 0xC00C, _A, 1, 1, 4)
        records = record + ipaddress.IPv4Address(address).packed
    header = struct.pack("!HHHHHH", 0x8180 | failed, 1, 1 if records else 0, 0, 0, 0)
    return query[:2] + header[:10] + question + records


def main() -> None:
    names = dict(word.split("=") for word in sys.argv[1:])
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("0.0.0.0", 53))
        while True:
            query, client = server.recvfrom(4096)
            server.sendto(answer(query, names), client)


if __name__ == "__main__":
    main()
