"""Threads that get values through PyTorch's own remote cache, with one connection pool each.

cluster_load.py runs it with PREFIX COUNT CLIENTS SECONDS, and the engine in
TORCHINDUCTOR_REDIS_URL."""

from __future__ import annotations

import json
import random
import sys
import threading
import time

from torch._inductor.remote_cache import RedisRemoteCacheBackend


def _get(
    prefix: str, count: int, seconds: float, connected: threading.Barrier, lock: threading.Lock
) -> None:
    cache = RedisRemoteCacheBackend("load")
    numbers = random.Random(threading.get_ident())
    micros = []
    others: dict[str, int] = {}
    cache.get(f"{prefix}0")
    connected.wait()
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        called = time.perf_counter_ns()
        value = cache.get(f"{prefix}{numbers.randrange(count)}")
        micros.append((time.perf_counter_ns() - called) // 1000)
        if value is None:
            others["miss"] = others.get("miss", 0) + 1
    line = {"from": begin, "to": time.monotonic(), "microseconds": micros, "others": others}
    with lock:
        print(json.dumps(line))


def main() -> None:
    prefix, count, clients, seconds = sys.argv[1:]
    lock = threading.Lock()
    connected = threading.Barrier(int(clients))
    arguments = (prefix, int(count), float(seconds), connected, lock)
    threads = [threading.Thread(target=_get, args=arguments) for _ in range(int(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
