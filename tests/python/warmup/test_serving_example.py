"""examples/serving: right answers whatever the batch, and the service as a process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import http.client
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from aiohttp.test_utils import TestClient, TestServer
from paths import ROOT

# The folder comes after all others, because benchmarks/ has a module with the name of one there.
sys.path.append(str(ROOT / "examples/serving"))

import lives
import service as service_module
from backends import BACKENDS
from batching import Batches, RunningBatch
from embedding import Embedder
from eventually import wait_until
from generation import Generator, Row
from helpers import fresh_process
from llama import make_llama
from load import NEVER_READY, Request, Sample, percentile, run_load, summary
from replica import Replica
from service import Service
from sizes import SIZES

from habana_frameworks.torch.dynamo import report

SMALL = SIZES["small"]
PROMPTS = [[2023, 2003], [7, 8, 9, 10, 11, 12, 13], [30000], list(range(500, 516)), [2, 2, 2]]
LIMITS = [9, 3, 14, 40, 1]


@functools.cache
def model():
    return make_llama(SMALL)


def alone(prompt: list[int], limit: int) -> list[int]:
    """transformers' own greedy generation of one request on the CPU."""

    with torch.inference_mode():
        out = model().generate(torch.tensor([prompt]), max_new_tokens=limit, do_sample=False)
    return out[0, len(prompt) :].tolist()


def generate(generator: Generator, joining: dict[int, list[Row]]) -> list[int]:
    """Generates while rows join before the given tokens. Returns how many rows ran at each
    token."""
    running = []
    for token in range(100):
        if token in joining:
            generator.admit(joining[token])
        if running and not generator.rows:
            break
        running.append(len(generator.advance()))
    return running


@pytest.mark.parametrize("backend", ["eager", "hpu"])
def test_rows_that_join_and_leave_generate_what_they_would_alone(backend):
    fresh_process()
    generator = Generator(BACKENDS[backend], SMALL)
    rows = [Row(prompt, limit) for prompt, limit in zip(PROMPTS, LIMITS, strict=True)]
    running = generate(generator, {0: rows[:2], 3: rows[2:3], 5: rows[3:]})
    assert max(running) == 3
    assert running[-1] == 0
    for row, limit in zip(rows, LIMITS, strict=True):
        assert row.tokens == alone(row.prompt, limit)
    assert len({tuple(row.tokens) for row in rows}) == 5
    if backend == "hpu":
        # There are prompts of one shape, and caches of 2 and 4 rows with 32 and 64 positions at
        # most.
        assert len(report().graphs) <= 5
        assert report().eager_segments == 0, report().eager_reasons


def test_a_cancelled_row_leaves():
    generator = Generator(BACKENDS["eager"], SMALL)
    rows = [Row([5, 6], 20), Row([7], 20)]
    generator.admit(rows)
    rows[0].cancelled = True
    assert generator.advance() == rows[1:]
    assert len(rows[0].tokens) == 1


def test_refused_requests():
    generator = Generator(BACKENDS["eager"], SMALL)
    with pytest.raises(ValueError, match="the prompt has 17 tokens, 1 to 16 are served"):
        generator.check([1] * 17, 1)
    with pytest.raises(ValueError, match="max_tokens is 61; behind this prompt 1 to 60 are"):
        generator.check([1] * 4, 61)


def test_embeddings_equal_eager():
    fresh_process()
    ours = Embedder(BACKENDS["hpu"], SMALL)
    texts = ["A kitten is napping.", "The forecast says it will be wet and windy.", "Fog."]
    tokens = [ours.tokens(text) for text in texts]
    got = torch.tensor(ours.embed(tokens))
    eager = Embedder(BACKENDS["eager"], SMALL)
    for row, text in zip(got, tokens, strict=True):
        want = torch.tensor(eager.embed([text])[0])
        assert float(want.norm()) == pytest.approx(1, abs=1e-5)
        assert float((row - want).abs().max()) < 1e-5
    assert (len(report().graphs), report().eager_segments) == (1, 0)


def run_batches(work, most: int, items: list[int]) -> tuple[list[object], list[int]]:
    """The results, including exceptions, of items that wait together; and the sizes of the
    batches."""
    sizes: list[int] = []

    async def run() -> list[object]:
        with ThreadPoolExecutor(1) as device:
            batches = Batches(work, most, device, sizes.append)
            jobs = [asyncio.create_task(batches.result(item)) for item in items]
            await asyncio.sleep(0)
            loop = asyncio.create_task(batches.run())
            results = await asyncio.gather(*jobs, return_exceptions=True)
            loop.cancel()
        return results

    return asyncio.run(run()), sizes


def test_what_waits_goes_together():
    results, sizes = run_batches(lambda items: [-item for item in items], 4, [*range(10)])
    assert results == [-item for item in range(10)]
    assert sizes == [4, 4, 2]


def test_an_error_reaches_those_of_its_batch():
    def work(items):
        if 1 in items:
            raise RuntimeError(f"cannot do {items}")
        return items

    results, _ = run_batches(work, 2, [0, 1, 2, 3])
    assert [str(result) for result in results] == ["cannot do [0, 1]"] * 2 + ["2", "3"]


class FailingGenerator:
    """Fails `failures` times, at the second token of all rows that run."""

    most_rows = most_prompts = 4

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.failures = 1
        self.dropped = 0

    def admit(self, rows):
        for row in rows:
            row.tokens.append(0)
        self.rows += rows
        return rows

    def advance(self):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the device is gone")
        self.rows = [row for row in self.rows if not row.done]
        for row in self.rows:
            row.tokens.append(len(row.tokens))
        return self.rows

    def drop(self):
        self.rows = []
        self.dropped += 1


def test_a_client_that_leaves_takes_its_row_along():
    async def run() -> None:
        with ThreadPoolExecutor(1) as device:
            batch = RunningBatch(generator, device, lambda _: None)
            loop = asyncio.create_task(batch.run())
            row = Row([1], 10**9)
            async with contextlib.aclosing(batch.tokens(row)) as tokens:
                assert await anext(tokens) == 0
                assert generator.rows == [row]
            assert [token async for token in batch.tokens(Row([1], 3))] == [0, 1, 2]
            assert row not in generator.rows
            loop.cancel()

    generator = FailingGenerator()
    generator.failures = 0
    asyncio.run(run())


def test_a_failed_token_ends_its_requests_and_no_others():
    async def tokens(batch: RunningBatch) -> list[int]:
        return [token async for token in batch.tokens(Row([1], 3))]

    async def run() -> list[object]:
        with ThreadPoolExecutor(1) as device:
            batch = RunningBatch(generator, device, lambda _: None)
            loop = asyncio.create_task(batch.run())
            first = await asyncio.gather(tokens(batch), tokens(batch), return_exceptions=True)
            second = await tokens(batch)
            loop.cancel()
        return [*first, second]

    generator = FailingGenerator()
    *failed, second = asyncio.run(run())
    assert generator.dropped == 1
    assert [str(error) for error in failed] == ["the device is gone"] * 2
    assert second == [0, 1, 2]


def open_stream(replica: Replica, tokens: int | str) -> http.client.HTTPResponse:
    body = json.dumps({"prompt": "Fog.", "max_tokens": tokens}).encode()
    return urllib.request.urlopen(f"{replica.url}/generate", body, timeout=120)


def test_the_service(private_cache):
    """The service is ready when it is warm, answers, and has metrics; a second process compiles
    nothing; it stops gracefully."""
    replica = Replica("hpu", "small", {"HPU_CACHE_DIR": str(private_cache)}, drain=0.2)
    try:
        replica.start()
        replica.wait_ready(300)
        first = replica.metrics()
        shapes = sum(
            first[f'serving_warm_shapes{{kind="{k}"}}'] for k in ("embed", "prompts", "tokens")
        )
        assert shapes == first["serving_programs_compiled"] == 6
        assert first["serving_eager_segments"] == 0
        check_requests(replica)
        assert replica.metrics()["serving_programs_compiled"] == 6
        assert replica.stop() == 0
        replica.start()
        replica.wait_ready(300)
        warm = replica.metrics()
        assert (warm["serving_programs_compiled"], warm["serving_programs_found"]) == (0, 6)
        check_stop_in_a_stream(replica)
    finally:
        replica.stop()


def test_a_stop_while_it_warms_up(private_cache):
    replica = Replica("hpu", "small", {"HPU_CACHE_DIR": str(private_cache)})
    replica.start()
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            open_stream_once_it_listens(replica)
        assert refused.value.code == 503
        assert json.load(refused.value) == {"error": "warming"}
    finally:
        assert replica.stop() == 0


def open_stream_once_it_listens(replica: Replica) -> None:
    def listens() -> bool:
        try:
            open_stream(replica, 1).close()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            return False
        return True

    wait_until(listens, "the service listens", 120)


def check_requests(replica: Replica) -> None:
    counter = iter(range(12))
    samples = asyncio.run(run_load([replica.url], 1e4, lambda: next(counter, None) is None, 8))
    assert [sample.error for sample in samples] == [""] * 12
    for sample in samples:
        body = dict(sample.request.body)
        if sample.request.path == "/embed":
            assert sum(value**2 for value in sample.answer) == pytest.approx(1, abs=1e-4)
        else:
            tokenizer = Embedder(BACKENDS["eager"], SMALL).tokenizer
            prompt = tokenizer(body["prompt"], add_special_tokens=False)["input_ids"]
            assert [*sample.answer] == alone(prompt, body["max_tokens"])
    page = replica.metrics()
    rows, launches = (
        page[f'serving_batch_rows_{part}{{kind="generate"}}'] for part in ("sum", "count")
    )
    assert rows / launches > 1.2  # they ran together
    with pytest.raises(urllib.error.HTTPError) as refused:
        open_stream(replica, "many")
    assert refused.value.code == 400
    assert json.load(refused.value) == {"error": "'max_tokens' must be of type int"}


def check_stop_in_a_stream(replica: Replica) -> None:
    """Requests that were accepted before SIGTERM are answered completely; then the process ends
    normally."""
    with open_stream(replica, 60) as stream:
        assert stream.readline().startswith(b'data: {"token":')
        statuses: list[int] = []
        stopping = threading.Thread(target=lambda: statuses.append(replica.stop()))
        stopping.start()
        rest = stream.read()
    stopping.join()
    assert rest.endswith(b'data: {"done": true}\n\n')
    assert rest.count(b'"token"') == 59
    assert statuses == [0]


def sample(path: str, seconds: float, error: str = "") -> Sample:
    return Sample(Request(path, ()), 0.0, seconds, seconds, (1.0,), error)


def test_figures_of_a_load():
    assert [percentile([*range(1, 101)], share) for share in (0.5, 0.99, 1)] == [50, 99, 100]
    figures = summary([sample("/embed", 2.0), sample("/embed", 4.0), sample("/embed", 9.0, "gone")])
    assert figures == {"/embed": {"answered": 2, "lost": 1, "p50": 2.0, "p90": 4.0, "p99": 4.0}}


def test_more_requests_than_it_takes_are_refused_and_come_again(monkeypatch):
    """They get 429 with Retry-After, and are counted; the load generator repeats such a request."""
    monkeypatch.setattr(service_module, "_RETRY_AFTER", {"Retry-After": "0.05"})

    async def run() -> tuple[int, str, list[Sample], str]:
        service = Service(BACKENDS["eager"], SMALL, show=False, most_requests=1)
        async with TestClient(TestServer(service.application())) as client:
            await asyncio.to_thread(wait_until, lambda: service.state == "ready", "it gets ready")
            with service._room("/embed") as room:
                assert room
                refused = await client.post("/embed", json={"text": "Fog."})
            url = f"{client.make_url('/')}".rstrip("/")
            counter = iter(range(8))
            done = await run_load([url], 1e4, lambda: next(counter, None) is None, 4)
            page = await (await client.get("/metrics")).text()
        return refused.status, refused.headers["Retry-After"], done, page

    status, after, done, page = asyncio.run(run())
    assert (status, after) == (429, "0.05")
    assert [sample.error for sample in done] == [""] * 8
    assert 'serving_requests_total{path="/embed",status="429"}' in page


def test_a_load_without_a_service_ends():
    counter = iter(range(3))
    load = run_load(["http://127.0.0.1:9"], 1e4, lambda: next(counter, None) is None, patience=0.1)
    assert [sample.error for sample in asyncio.run(load)] == [NEVER_READY] * 3


def test_the_page_of_a_comparison(tmp_path):
    """The table and the picture show that a contender was not ready in time."""
    never = lives.Life("inductor cold", None, [sample("/embed", 9.0, NEVER_READY)], {})
    good = lives.Life("hpu local", 3.0, [sample("/embed", 4.0)], {"serving_programs_found": 10})
    lives.draw([never, good], 20, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    chosen = argparse.Namespace(size="reduced", rate=4.0, seconds=15.0, limit=20.0)
    page = lives.page([never.figures(), good.figures()], chosen)
    assert "serve the same 10 shapes" in page
    assert "| inductor cold | not ready after 20 s | 1 | 1 | 0 | 0 | - | - |" in page
    assert "| hpu local | 3.0 s | 1 | 0 | 0 | 0 | 4 | 4 |" in page
    assert "was not ready in time was stopped" in page


def run_script(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples/serving" / script), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_rolling_restart_loses_nothing_and_compiles_nothing():
    arguments = ("--size", "small", "--replicas", "4", "--rate", "4", "--tokens", "8")
    figures = json.loads(run_script("rolling.py", *arguments))
    assert (figures["lost"], figures["different answers"]) == (0, 0)
    assert figures["programs compiled at each start"] == [6, *[0] * 7]
    assert figures["requests"] > 20


@pytest.mark.slow
def test_the_comparison(tmp_path):
    contenders = "hpu cold,hpu shared,hpu local,eager"
    picture = tmp_path / "serving.png"
    arguments = ("--size", "small", "--rate", "4", "--seconds", "3", "--tokens", "8")
    rows = json.loads(
        run_script("compare.py", *arguments, "--contenders", contenders, "--picture", str(picture))
    )
    assert [row["contender"] for row in rows] == contenders.split(",")
    assert [row["compiled"] for row in rows] == [6, 0, 0, None]
    assert [row["found"] for row in rows[1:3]] == [6, 6]
    assert all(row["lost"] == 0 and row["requests"] > 5 for row in rows)
    assert picture.read_bytes().startswith(b"\x89PNG")
